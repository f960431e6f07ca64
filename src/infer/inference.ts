// Inference: what every request needs on its way from Call to Reply. One per server, put together by worker/.
//
// Holds no state of its own; infer() and the outcomes take it as their first argument.

import type { Clock } from "../base/clock.ts";
import type { StatusCode } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { RequestLog } from "../base/request-log.ts";
import type { Registry } from "../model/registry.ts";
import type { Admission } from "./admission.ts";
import type { Dispatcher } from "./dispatch.ts";

export interface Inference {
  readonly registry: Registry;
  readonly dispatcher: Dispatcher;
  readonly admission: Admission;
  readonly clock: Clock;
  readonly log: Logger;
  /** Undefined when requests are not logged. */
  readonly requestLog: RequestLog | undefined;
  /** Failed requests that named no model of ours, by status; the others are in their model's statistics. */
  readonly unknownModel: Map<StatusCode, number>;
}

// What became of a request: counted with its model, and a line in the request log where that is wanted.
//
// Each request ends in exactly one of the two calls. Called by request.ts, and by service/ for requests that never got
// as far as infer().

import { ServerError } from "../base/errors.ts";
import type { Model } from "../model/model.ts";
import type { Inference } from "./inference.ts";
import type { Executed } from "./job.ts";

/** Which request it was. */
export interface RequestIdentity {
  readonly id: string;
  readonly modelName: string;
  readonly arrivalNs: number;
}

export function succeeded(
  { clock, requestLog }: Inference,
  model: Model,
  { id, modelName, arrivalNs }: RequestIdentity,
  rows: number,
  { timing, batchSize: batch }: Executed,
): void {
  const totalNs = clock.nowNs() - arrivalNs;
  model.statistics.served({ rows, totalNs, ...timing }, clock.wallMs());
  const { queueNs, executeNs: computeNs } = timing;
  requestLog?.({ id, model: modelName, status: "OK", rows, batch, queueNs, computeNs, totalNs });
}

/**
 * Returns what was thrown as the error for the client. `model` is undefined where none has the name. What is no
 * ServerError is a defect of ours: it goes to the log with its stack.
 */
export function failed(
  { clock, log, requestLog, unknownModel }: Inference,
  model: Model | undefined,
  { id, modelName, arrivalNs }: RequestIdentity,
  thrown: unknown,
): ServerError {
  const error = ServerError.from(thrown, `model '${modelName}'`);
  if (error !== thrown) log.error("request failed", { model: modelName, id, error: thrown });
  const totalNs = clock.nowNs() - arrivalNs;
  if (model) model.statistics.failed(error.code, totalNs);
  else unknownModel.set(error.code, (unknownModel.get(error.code) ?? 0) + 1);
  requestLog?.({ id, model: modelName, status: error.code, totalNs, error });
  return error;
}

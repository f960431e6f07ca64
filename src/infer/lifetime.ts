// Lifetime: until when a request is worth working on. Ends once: by its deadline, its client's leaving, or our stopping.
//
// The deadline is the earliest of grpc-timeout (kept by the transport), the `timeout` parameter (microseconds, as
// Triton) and `xlaserver_timeout_ns`. Listeners run at the end; disposed when the request is answered.

import { type Clock, NS_PER_MS, NS_PER_US, type Timer } from "../base/clock.ts";
import { ServerError } from "../base/errors.ts";
import type { Call, CancelReason, ParameterValue } from "../call/call.ts";

export class Lifetime implements Disposable {
  /** Monotonic nanoseconds; Infinity without a deadline. */
  readonly deadlineNs: number;
  private ended: ServerError | undefined;
  private listener: ((error: ServerError) => void) | undefined;
  private readonly timer: Timer | undefined;

  constructor(
    call: Call,
    private readonly clock: Clock,
  ) {
    const transportNs = call.deadlineNs ?? Infinity;
    this.deadlineNs = Math.min(transportNs, call.arrivalNs + requestedNs(call));
    const nowNs = clock.nowNs();
    if (this.deadlineNs <= nowNs) {
      throw new ServerError("DEADLINE_EXCEEDED", `the deadline passed before model '${call.modelName}' was asked`);
    }
    if (this.deadlineNs < transportNs) {
      this.timer = clock.after(this.deadlineNs - nowNs, () =>
        this.end(new ServerError("DEADLINE_EXCEEDED", `model '${call.modelName}': the request's timeout passed`)),
      );
    }
    call.onCancel((reason) => this.end(this.whyCancelled(reason, call.modelName)));
  }

  /** Why it ended; undefined while it lasts. */
  get error(): ServerError | undefined {
    return this.ended;
  }

  /** The deadline in Unix milliseconds; undefined without one. */
  get deadlineMs(): number | undefined {
    if (this.deadlineNs === Infinity) return undefined;
    return this.clock.wallMs() + (this.deadlineNs - this.clock.nowNs()) / NS_PER_MS;
  }

  /** Sets the one listener for the end; the stage now at work. Called at once if the end has been. */
  onEnd(listener: ((error: ServerError) => void) | undefined): void {
    this.listener = listener;
    if (this.ended && listener) listener(this.ended);
  }

  /** What the transport tells the client itself is only counted and logged here. */
  private whyCancelled(reason: CancelReason, modelName: string): ServerError {
    if (reason === "stopping") return new ServerError("UNAVAILABLE", "the server is shutting down");
    // A client that gives up at its own deadline may be heard before our timer is.
    return reason === "deadline" || this.clock.nowNs() >= this.deadlineNs
      ? new ServerError("DEADLINE_EXCEEDED", `model '${modelName}': the call's deadline passed`)
      : new ServerError("CANCELLED", "the client cancelled the call");
  }

  private end(error: ServerError): void {
    if (this.ended) return;
    this.ended = error;
    this.listener?.(error);
  }

  [Symbol.dispose](): void {
    this.timer?.cancel();
    this.listener = undefined;
  }
}

/** Nanoseconds that the request's own parameters allow it; Infinity when they say nothing. */
function requestedNs(call: Call): number {
  const { parameters } = call;
  if (parameters.size === 0) return Infinity;
  const timeoutNs = whole(parameters, "timeout") * NS_PER_US;
  return Math.min(timeoutNs, whole(parameters, "xlaserver_timeout_ns"));
}

/** An integer parameter; Infinity when it is absent or not positive, which the protocol ignores. */
function whole(parameters: ReadonlyMap<string, ParameterValue>, name: string): number {
  const value = parameters.get(name);
  if (value === undefined) return Infinity;
  if (typeof value !== "bigint") {
    throw new ServerError("INVALID_ARGUMENT", `parameter '${name}': expected an integer, received ${String(value)}`);
  }
  return value > 0n ? Number(value) : Infinity;
}

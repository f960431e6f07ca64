// HookJob: one thing to do on a hook thread, from being asked for to being settled, once.
//
// Two kinds: loading a bundle's hooks to see that they are sound, and calling one of them. A job that was cancelled may
// still be running on its thread; its outcome is then dropped. Made and driven by pool.ts.

import { ServerError } from "../base/errors.ts";
import type { CallTensor, Parameters } from "../call/call.ts";
import type { HookName, HookState } from "./messages.ts";

/** Where a bundle's hooks are. */
export interface HookFile {
  /** The model's name, for messages. */
  readonly name: string;
  /** Counts the loads of this bundle, for messages. */
  readonly generation: number;
  /** The bundle's directory, and its model.ts: absolute paths. */
  readonly directory: string;
  readonly file: string;
  /** What one import or one hook call may take. */
  readonly timeLimitMs: number;
}

/** What a hook is told of its request. */
export interface HookRequest {
  readonly parameters: Parameters;
  readonly requestId: string;
  /** Unix milliseconds. */
  readonly deadlineMs: number | undefined;
  /** What preprocess left, for postprocess. */
  readonly state?: HookState | undefined;
}

export interface HookResult {
  readonly tensors: readonly CallTensor[];
  /** What preprocess left in `context.state`; undefined when nothing, or when there is no postprocess hook. */
  readonly state: HookState | undefined;
}

/** The hooks of one load of a bundle, by the pool's number. */
export interface LoadedFile extends HookFile {
  readonly id: number;
}

export type JobResult = readonly HookName[] | HookResult;

export class HookJob {
  readonly done: Promise<JobResult>;
  settled = false;
  private readonly resolve: (result: JobResult) => void;
  private readonly reject: (error: ServerError) => void;

  /** `call` is undefined for a job that only loads. */
  constructor(
    readonly file: LoadedFile,
    readonly call?: { readonly hook: HookName; readonly tensors: readonly CallTensor[]; readonly request: HookRequest },
  ) {
    const { promise, resolve, reject } = Promise.withResolvers<JobResult>();
    this.done = promise;
    this.resolve = resolve;
    this.reject = reject;
  }

  succeed(result: JobResult): void {
    if (this.settled) return;
    this.settled = true;
    this.resolve(result);
  }

  fail(error: ServerError): void {
    if (this.settled) return;
    this.settled = true;
    this.reject(error);
  }

  /**
   * The error for what went wrong, as `model 'm': preprocess hook: ...`, since a client reads it; while loading as
   * `m/model.ts:3:7: ...`, with the place where it went wrong, if known.
   */
  fault(message: string, place?: string): ServerError {
    const { name, file } = this.file;
    const fileName = file.slice(file.lastIndexOf("/") + 1);
    if (!this.call) return new ServerError("INVALID_ARGUMENT", `${place ?? `${name}/${fileName}`}: ${message}`);
    return new ServerError("INTERNAL", `model '${name}': ${this.call.hook} hook: ${message}`);
  }
}

// HookPool: runs the hooks of all bundles on a few threads, in the order in which they were asked for.
//
// One queue, at most one order on a thread: a hook that fails, loops or dies takes only its own job along, whatever
// waits goes to another thread. Threads start when needed and import a bundle when they first serve it, those that have
// it already going first. What a thread has imported stays; so a reload (the same directory again) retires the threads
// that hold the older load: they serve only that until its HookSet is disposed. Used by model/ (load) and infer/ (calls).

import type { Clock } from "../base/clock.ts";
import { ServerError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { residentAnonymousBytes } from "../base/memory.ts";
import type { CallTensor } from "../call/call.ts";
import { HookLog } from "./hook-log.ts";
import { type HookFile, HookJob, type HookRequest, type HookResult, type LoadedFile } from "./job.ts";
import { type HookName, receiveTensors, sendTensors } from "./messages.ts";
import { HookThread, type NewOrder, type Outcome } from "./thread.ts";
import { HookWatch, type Watched } from "./watch.ts";

export type { HookFile, HookRequest, HookResult } from "./job.ts";
export type { HookState } from "./messages.ts";

export interface HookPoolOptions {
  /** Threads that run hooks at the same time. */
  readonly threads: number;
  /** By how much the process's anonymous memory may grow while a hook runs. */
  readonly memoryBoundBytes: number;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A hook call under way or waiting. */
export interface HookRun {
  /** Errors: INTERNAL naming model and hook; INVALID_ARGUMENT for InvalidInput; what `cancel` was given; UNAVAILABLE. */
  readonly done: Promise<HookResult>;
  /** Settles `done` with `error` at once. A hook that runs already has its signal aborted and its result dropped. */
  cancel(error: ServerError): void;
}

/** The hooks of one load of a bundle. Dispose it when no call will come any more. */
export interface HookSet extends Disposable {
  readonly hasPreprocess: boolean;
  readonly hasPostprocess: boolean;
  /** Tensor bytes must stay valid until `done` settles. Only when hasPreprocess. */
  preprocess(tensors: readonly CallTensor[], request: HookRequest): HookRun;
  /** As preprocess, for outputs; `request.state` is what preprocess of the same request left. */
  postprocess(tensors: readonly CallTensor[], request: HookRequest): HookRun;
}

/** Counts since the start, but for those that name a present state. */
export interface HookCounters {
  completed: number;
  /** Every other end of a call or load, cancelled ones left out. */
  failed: number;
  overTime: number;
  overMemory: number;
  /** Threads that died or were ended before their time. */
  threadsLost: number;
  readonly threads: number;
  readonly running: number;
  readonly waiting: number;
}

/** A thread, what it has imported (load by directory), and its job. */
interface Seat extends Watched {
  readonly thread: HookThread;
  readonly loaded: Map<string, LoadedFile>;
  job: HookJob | undefined;
  retired: boolean;
}

export function createHookPool(options: HookPoolOptions): HookPool {
  return new HookPool(options);
}

export class HookPool implements Disposable {
  private readonly waiting = new Set<HookJob>();
  private readonly seats = new Set<Seat>();
  /** The latest load of each directory: the only one that may still be imported, since files are as of now. */
  private readonly latest = new Map<string, LoadedFile>();
  private readonly live = new Set<LoadedFile>();
  private readonly watch: HookWatch<Seat>;
  private readonly log: HookLog;
  private readonly counts = { completed: 0, failed: 0, overTime: 0, overMemory: 0, threadsLost: 0 };
  private loads = 0;
  private spawned = 0;
  private closed = false;

  constructor(private readonly options: HookPoolOptions) {
    this.log = new HookLog(options.log, options.clock);
    this.watch = new HookWatch({
      clock: options.clock,
      memoryBoundBytes: options.memoryBoundBytes,
      residentBytes: residentAnonymousBytes,
      watched: () => this.seats,
      onTimeLimit: (seat) => this.endForTime(seat),
      onMemoryBound: (seat, grownBytes) => this.endForMemory(seat, grownBytes),
    });
  }

  get counters(): HookCounters {
    let running = 0;
    for (const { job } of this.seats) if (job) running++;
    return { ...this.counts, threads: this.seats.size, running, waiting: this.waiting.size };
  }

  /**
   * Imports a bundle's hooks on one thread, to see that they are sound and which there are. Errors: INVALID_ARGUMENT
   * with the file's name and why: it cannot be imported, registers nothing, or takes longer than its limit.
   */
  async load(file: HookFile): Promise<HookSet> {
    const loaded: LoadedFile = { ...file, id: ++this.loads };
    this.latest.set(file.directory, loaded);
    this.live.add(loaded);
    for (const seat of this.seats) if (seat.loaded.has(file.directory)) seat.retired = true;
    const dispose = () => {
      this.live.delete(loaded);
      for (const seat of [...this.seats]) this.leaveIfRetired(seat);
    };
    const job = new HookJob(loaded);
    this.enqueue(job);
    let hooks: readonly HookName[];
    try {
      hooks = (await job.done) as readonly HookName[];
    } catch (thrown) {
      dispose();
      throw thrown;
    }
    return {
      hasPreprocess: hooks.includes("preprocess"),
      hasPostprocess: hooks.includes("postprocess"),
      preprocess: (tensors, request) => this.call(new HookJob(loaded, { hook: "preprocess", tensors, request })),
      postprocess: (tensors, request) => this.call(new HookJob(loaded, { hook: "postprocess", tensors, request })),
      [Symbol.dispose]: dispose,
    };
  }

  private call(job: HookJob): HookRun {
    this.enqueue(job);
    return {
      done: job.done as Promise<HookResult>,
      cancel: (error) => this.cancel(job, error),
    };
  }

  private enqueue(job: HookJob): void {
    if (this.closed) {
      job.fail(new ServerError("UNAVAILABLE", "the server is shutting down"));
      return;
    }
    this.waiting.add(job);
    this.dispatch();
  }

  private cancel(job: HookJob, error: ServerError): void {
    if (job.settled) return;
    job.fail(error);
    if (this.waiting.delete(job)) return;
    for (const seat of this.seats) if (seat.job === job) seat.thread.abort();
  }

  /** Gives waiting jobs to free threads, first come first served. */
  private dispatch(): void {
    for (const job of this.waiting) {
      if (!this.hasRoom()) return;
      const seat = this.seatFor(job.file);
      if (seat) {
        this.waiting.delete(job);
        this.begin(seat, job);
      } else if (this.isLost(job.file)) {
        this.waiting.delete(job);
        job.fail(new ServerError("UNAVAILABLE", `model '${job.file.name}': its hooks were replaced by a later load`));
      }
    }
  }

  private hasRoom(): boolean {
    let serving = 0;
    for (const seat of this.seats) {
      if (!seat.job) return true;
      if (!seat.retired) serving++;
    }
    return serving < this.options.threads;
  }

  /** A free thread for a call of this load: one that has it imported, else one that may import it, else a new one. */
  private seatFor(file: LoadedFile): Seat | undefined {
    const isLatest = this.latest.get(file.directory) === file;
    let fresh: Seat | undefined;
    let serving = 0;
    for (const seat of this.seats) {
      if (!seat.retired) serving++;
      if (seat.job || (seat.retired && isLatest)) continue;
      const imported = seat.loaded.get(file.directory);
      if (imported === file) return seat;
      if (isLatest && !imported) fresh ??= seat;
    }
    if (fresh) return fresh;
    return isLatest && serving < this.options.threads ? this.spawn() : undefined;
  }

  /** True for an older load that no thread holds any more: its files are gone. */
  private isLost(file: LoadedFile): boolean {
    if (this.latest.get(file.directory) === file) return false;
    for (const seat of this.seats) if (seat.loaded.get(file.directory) === file) return false;
    return true;
  }

  private spawn(): Seat {
    const { clock } = this.options;
    const name = `hook-${++this.spawned}`;
    const thread = new HookThread(
      name,
      clock,
      (aside) => this.log.aside(aside, name, seat.job?.file.name, namesOf(seat)),
      (message) => {
        this.counts.threadsLost++;
        this.seats.delete(seat);
        this.log.died(message, name, seat.job?.file.name);
      },
    );
    const seat: Seat = {
      thread,
      loaded: new Map(),
      job: undefined,
      retired: false,
      baselineBytes: undefined,
      get timeLimitMs() {
        return seat.job?.file.timeLimitMs ?? Number.POSITIVE_INFINITY;
      },
      runningNs: (nowNs) => thread.runningNs(nowNs),
    };
    this.seats.add(seat);
    return seat;
  }

  private begin(seat: Seat, job: HookJob): void {
    seat.job = job;
    if (seat.loaded.get(job.file.directory) === job.file) this.beginCall(seat, job);
    else this.beginImport(seat, job);
  }

  private beginImport(seat: Seat, job: HookJob): void {
    const { id, name, file, directory } = job.file;
    // Noted before it has worked: what even a failed import left in this thread, a later load must not meet.
    seat.loaded.set(directory, job.file);
    this.order(seat, { kind: "load", set: id, name, file, directory }, [], (outcome) => {
      if (outcome.kind === "loaded") this.log.changed(outcome.changed, seat.thread.name, job);
      if (outcome.kind === "loaded" && job.call && !job.settled) {
        this.beginCall(seat, job);
        return;
      }
      if (outcome.kind === "loaded") job.succeed(outcome.hooks);
      else seat.retired = true;
      this.finish(seat, job, outcome);
    });
  }

  private beginCall(seat: Seat, job: HookJob): void {
    const { hook, tensors: inputs, request } = job.call!;
    const { parameters, requestId, deadlineMs, state } = request;
    const [tensors, transfer] = sendTensors(inputs);
    const order = { hook, tensors, parameters: [...parameters], requestId, deadlineMs, state };
    this.order(seat, { kind: "run", set: job.file.id, ...order }, transfer, (outcome) =>
      this.finish(seat, job, outcome),
    );
  }

  private order(seat: Seat, order: NewOrder, transfer: ArrayBuffer[], settle: (outcome: Outcome) => void): void {
    seat.baselineBytes = undefined;
    seat.thread.start(order, transfer, settle);
    this.watch.start();
  }

  private finish(seat: Seat, job: HookJob, outcome: Outcome): void {
    if (outcome.kind === "done") {
      let tensors: readonly CallTensor[];
      try {
        tensors = receiveTensors(outcome.tensors);
      } catch {
        // Only a hook that posts messages of its own can have sent this: its thread can't be believed any more.
        this.end(seat, "it sent what is no result and was ended");
        return;
      }
      if (!job.settled) this.counts.completed++;
      job.succeed({ tensors, state: outcome.state });
    } else if (outcome.kind !== "loaded") {
      if (outcome.kind === "failed") this.log.failed(outcome, seat.thread.name, job);
      const clientsFault = outcome.kind === "failed" && outcome.code === "INVALID_ARGUMENT";
      this.fail(
        job,
        clientsFault
          ? new ServerError("INVALID_ARGUMENT", `model '${job.file.name}': ${outcome.message}`)
          : job.fault(outcome.message, outcome.kind === "failed" ? outcome.place : undefined),
      );
    }
    seat.job = undefined;
    this.leaveIfRetired(seat);
    this.dispatch();
  }

  private fail(job: HookJob, error: ServerError): void {
    if (!job.settled) this.counts.failed++;
    job.fail(error);
  }

  /** Ends a retired thread once it has no job and no load that only it can serve. */
  private leaveIfRetired(seat: Seat): void {
    if (!seat.retired || seat.job) return;
    for (const file of seat.loaded.values()) {
      if (this.live.has(file) && this.latest.get(file.directory) !== file) return;
    }
    seat.thread.terminate();
    this.seats.delete(seat);
  }

  // INTERNAL, not DEADLINE_EXCEEDED: the limit is the bundle's, the client's deadline may be far, and nobody should
  // retry for it with a longer one.
  private endForTime(seat: Seat): void {
    this.counts.overTime++;
    const { timeLimitMs } = seat.job!.file;
    this.end(seat, `it ran longer than its limit of ${timeLimitMs} ms (hooks.time_limit_ms) and was ended`);
  }

  private endForMemory(seat: Seat, grownBytes: number): void {
    this.counts.overMemory++;
    const mib = (bytes: number) => Math.round(bytes / 2 ** 20);
    const bound = mib(this.options.memoryBoundBytes);
    this.end(
      seat,
      `memory grew by ${mib(grownBytes)} MiB while it ran, beyond the bound of ${bound} MiB; it was ended`,
    );
  }

  private end(seat: Seat, why: string): void {
    const job = seat.job!;
    this.counts.threadsLost++;
    seat.thread.terminate();
    this.seats.delete(seat);
    this.log.ended(why, seat.thread.name, job);
    this.fail(job, job.fault(why));
    this.dispatch();
  }

  [Symbol.dispose](): void {
    this.closed = true;
    this.watch[Symbol.dispose]();
    const error = new ServerError("UNAVAILABLE", "the server is shutting down");
    for (const job of this.waiting) job.fail(error);
    this.waiting.clear();
    for (const seat of this.seats) {
      seat.thread.terminate();
      seat.job?.fail(error);
    }
    this.seats.clear();
  }
}

function namesOf(seat: Seat): string {
  return [...seat.loaded.values()].map(({ name }) => name).join(", ");
}

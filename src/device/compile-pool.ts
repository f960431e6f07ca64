// Compiling outside this process: helpers that fill the executable cache, a few modules at a time.
//
// In-process, a compile shares XLA's threads with serving and a crash of the compiler is the server's. A helper compiles
// one module after another, since starting one costs 0.2 s, and ends when no more come. When it dies, the module that it
// was compiling fails with the reason, and the others go to a new one. Used by executables.ts.

import type { Clock, Timer } from "../base/clock.ts";
import { ServerError } from "../base/errors.ts";
import { COMPILE_LINGER_NS } from "../base/limits.ts";
import { type Child, describeExit, spawnHelper } from "../base/processes.ts";
import type { CompileAnswer, CompileMessage, CompileRequest } from "./compile-messages.ts";
import type { ClientSpec, StoreOutcome } from "./loader.ts";
import { fromPlainError } from "./plain-error.ts";

interface Job {
  readonly request: CompileRequest;
  readonly resolve: (outcome: StoreOutcome) => void;
  readonly reject: (error: ServerError) => void;
}

interface Worker {
  readonly child: Child;
  /** True until the client is open. */
  opening: boolean;
  job: Job | undefined;
  linger: Timer | undefined;
}

export class CompilePool implements Disposable {
  private readonly queue: Job[] = [];
  private readonly workers = new Set<Worker>();
  private disposed = false;

  constructor(
    private readonly spec: ClientSpec,
    private readonly parallelism: number,
    private readonly clock: Clock,
  ) {}

  /**
   * Compiles a module and stores it in the cache under its key, or says why it could not be stored.
   * Errors: INVALID_ARGUMENT with the compiler's message; INTERNAL when the compiler died on it; UNAVAILABLE once the
   * pool is disposed, for a module that was on its way here too.
   */
  compile(request: CompileRequest): Promise<StoreOutcome> {
    return new Promise((resolve, reject) => {
      if (this.disposed) return reject(shuttingDown());
      this.queue.push({ request, resolve, reject });
      this.assign();
    });
  }

  private assign(): void {
    for (const worker of this.workers) {
      if (worker.opening || worker.job) continue;
      const job = this.queue.shift();
      if (!job) return;
      worker.linger?.cancel();
      worker.job = job;
      worker.child.send(job.request satisfies CompileMessage);
    }
    // One that is starting will take a job too.
    const starting = [...this.workers].filter(({ opening }) => opening).length;
    if (this.queue.length > starting && this.workers.size < this.parallelism) this.start();
  }

  private start(): void {
    let worker: Worker | undefined;
    let child: Child;
    try {
      child = spawnHelper("__compile", "device/compile-child.ts", {
        onMessage: (message) => this.answer(worker!, message as CompileAnswer),
      });
    } catch (thrown) {
      this.queue.shift()?.reject(ServerError.from(thrown, "starting a compiler process"));
      return;
    }
    worker = { child, opening: true, job: undefined, linger: undefined };
    this.workers.add(worker);
    const started = worker;
    child.send({ open: this.spec } satisfies CompileMessage);
    void child.exited.then((exit) => this.bury(started, `the compiler process died: ${describeExit(exit)}`));
    this.assign();
  }

  private answer(worker: Worker, { error, unstored }: CompileAnswer): void {
    const { job } = worker;
    if (worker.opening) {
      worker.opening = false;
      if (error) this.bury(worker, `the compiler process could not start: ${error.message}`);
    } else if (job) {
      worker.job = undefined;
      if (error) job.reject(fromPlainError(error));
      else job.resolve(unstored === undefined ? {} : { unstored });
    }
    this.assign();
    if (!worker.job && this.workers.has(worker))
      worker.linger = this.clock.after(COMPILE_LINGER_NS, () => this.stop(worker));
  }

  private stop(worker: Worker): void {
    this.workers.delete(worker);
    worker.linger?.cancel();
    worker.child[Symbol.dispose]();
  }

  /** Fails what the helper was at: its module, or, when it never got that far, the first that waits. */
  private bury(worker: Worker, reason: string): void {
    if (!this.workers.has(worker)) return;
    this.stop(worker);
    const victim = worker.job ?? (worker.opening || this.workers.size === 0 ? this.queue.shift() : undefined);
    victim?.reject(new ServerError("INTERNAL", `${victim.request.label}: ${reason}`));
    if (!this.disposed) this.assign();
  }

  [Symbol.dispose](): void {
    this.disposed = true;
    for (const { reject } of this.queue.splice(0)) reject(shuttingDown());
    for (const worker of [...this.workers]) {
      worker.job?.reject(shuttingDown());
      this.stop(worker);
    }
  }
}

function shuttingDown(): ServerError {
  return new ServerError("UNAVAILABLE", "the device is shutting down");
}

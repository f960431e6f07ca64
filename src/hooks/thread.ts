// HookThread: one hook thread as the pool sees it. It has at most one order under way.
//
// It keeps the clockwork of that order: when it started, whether it is over its time, and what ends it (a report, the
// thread's own end, or being terminated). It knows no queue and no bundle but by number. Used by pool.ts.

import type { Clock } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import { spawnThread } from "../base/threads.ts";
import type { Aside, LoadOrder, Report, RunOrder } from "./messages.ts";

/** How an order ended: with its report, or with the thread. */
export type Outcome = Exclude<Report, Aside | { kind: "ready" }> | { readonly kind: "died"; readonly message: string };

/** An order as the pool gives it; the thread numbers it. */
export type NewOrder = Omit<LoadOrder, "order"> | Omit<RunOrder, "order">;

export class HookThread {
  private readonly worker: Worker;
  private ready = false;
  private order = 0;
  private settle: ((outcome: Outcome) => void) | undefined;
  private startNs = 0;
  private lastError: string | undefined;

  /** `onAside` hears what is for the log; `onEnd` of the thread's end, unless it was terminated. */
  constructor(
    readonly name: string,
    private readonly clock: Clock,
    private readonly onAside: (aside: Aside) => void,
    private readonly onEnd: (message: string) => void,
  ) {
    this.worker = spawnThread("hooks/hook.thread", { name });
    this.worker.addEventListener("message", this.onMessage);
    this.worker.addEventListener("error", this.onError);
    this.worker.addEventListener("close", this.onClose);
  }

  get busy(): boolean {
    return this.settle !== undefined;
  }

  /** For how long the order under way has run; undefined while there is none, and until the thread has come up. */
  runningNs(nowNs: number): number | undefined {
    return this.settle && this.ready ? nowNs - this.startNs : undefined;
  }

  /** Starts an order; `settle` is called once, unless the thread is terminated before. Only when not busy. */
  start(order: NewOrder, transfer: ArrayBuffer[], settle: (outcome: Outcome) => void): void {
    this.settle = settle;
    this.startNs = this.clock.nowNs();
    this.worker.postMessage({ ...order, order: ++this.order }, transfer);
  }

  /** Tells the order under way that nobody waits for it any more. */
  abort(): void {
    if (this.busy) this.worker.postMessage({ kind: "abort", order: this.order });
  }

  /** Ends the thread, whatever it does; its order is never settled. A native call it is in is left behind, unheard. */
  terminate(): void {
    this.settle = undefined;
    this.worker.removeEventListener("message", this.onMessage);
    this.worker.removeEventListener("close", this.onClose);
    this.worker.terminate();
  }

  private readonly onMessage = ({ data }: MessageEvent<Report>): void => {
    switch (data?.kind) {
      case "ready":
        this.ready = true;
        this.startNs = this.clock.nowNs();
        return;
      case "stray":
      case "output":
      case "dropped":
        this.onAside(data);
        return;
      default:
        // A hook that posts messages of its own is not answered.
        if (data?.order === this.order) this.end(data);
    }
  };

  private readonly onError = (event: ErrorEvent): void => {
    event.preventDefault();
    this.lastError = event.message || messageOf(event.error);
  };

  private readonly onClose = (event: Event): void => {
    const code = (event as CloseEvent).code;
    const message = this.lastError ?? `it ended the thread (exit code ${code})`;
    const { settle } = this;
    this.settle = undefined;
    this.onEnd(message);
    settle?.({ kind: "died", message });
  };

  private end(outcome: Outcome): void {
    const { settle } = this;
    this.settle = undefined;
    settle?.(outcome);
  }
}

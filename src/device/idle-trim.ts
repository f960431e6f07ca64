// Gives the heap's free memory back once nothing has run for a while, so that an idle server is a small one.
//
// One timer, and a time stamp a run: a busy device never trims. Used by pjrt.ts.

import type { Clock, Timer } from "../base/clock.ts";
import { HEAP_IDLE_NS } from "../base/limits.ts";

export class IdleTrim implements Disposable {
  private latestNs = 0;
  private timer: Timer | undefined;

  constructor(
    private readonly clock: Clock,
    private readonly trim: () => void,
  ) {}

  /** Says that something ran, or was compiled, just now. */
  note(): void {
    this.latestNs = this.clock.nowNs();
    this.timer ??= this.clock.after(HEAP_IDLE_NS, () => this.look());
  }

  [Symbol.dispose](): void {
    this.timer?.cancel();
  }

  private look(): void {
    const quietNs = this.clock.nowNs() - this.latestNs;
    if (quietNs < HEAP_IDLE_NS) {
      this.timer = this.clock.after(HEAP_IDLE_NS - quietNs, () => this.look());
    } else {
      this.timer = undefined;
      this.trim();
    }
  }
}

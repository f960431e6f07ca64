// A bound on lines of the log that a hook causes: so many a second, the rest counted and told once the second is over.
//
// One for each thing that must not drown the others: a thread's output, a load's failures. Used by hook.thread.ts, so
// that a flood never crosses to the pool, and by hook-log.ts.

import { type Clock, NS_PER_S, type Timer } from "../base/clock.ts";
import { HOOK_LINES_PER_SECOND_MAX } from "../base/limits.ts";

export class LineGate {
  private endNs = Number.NEGATIVE_INFINITY;
  private lines = 0;
  private timer: Timer | undefined;

  /** `onDropped` hears how many lines a second had too many: at its end, or with the first line after it. */
  constructor(
    private readonly clock: Clock,
    private readonly onDropped: (lines: number) => void,
  ) {}

  /** Whether one more line may go out now. */
  admits(): boolean {
    const nowNs = this.clock.nowNs();
    if (nowNs >= this.endNs) {
      this.close();
      this.endNs = nowNs + NS_PER_S;
    }
    if (++this.lines <= HOOK_LINES_PER_SECOND_MAX) return true;
    this.timer ??= this.clock.after(this.endNs - nowNs, () => this.close());
    return false;
  }

  private close(): void {
    this.timer?.cancel();
    this.timer = undefined;
    const dropped = this.lines - HOOK_LINES_PER_SECOND_MAX;
    this.lines = 0;
    if (dropped > 0) this.onDropped(dropped);
  }
}

// The watch over running hooks: each has a time limit, and together a bound on how far they drive resident memory.
//
// A Worker's own heap limit is not enforced, and a process that runs out of memory dies with every request in it; so
// the process's anonymous memory is sampled while hooks run, and growth is laid to the one that runs longest. The watch
// turns only while something runs, and costs a call nothing. Used by pool.ts.

import { type Clock, NS_PER_MS, type Timer } from "../base/clock.ts";
import { HOOK_WATCH_NS } from "../base/limits.ts";

/** Something that runs on a thread and may have to be ended. */
export interface Watched {
  /** For how long its present order has run; undefined while there is none. */
  runningNs(nowNs: number): number | undefined;
  /** Infinity while nothing is asked of it. */
  readonly timeLimitMs: number;
  /** Resident memory when the watch first saw the present order; the watch sets it. */
  baselineBytes: number | undefined;
}

export interface WatchOptions<W extends Watched> {
  readonly clock: Clock;
  /** By how much resident memory may grow while a hook runs. */
  readonly memoryBoundBytes: number;
  /** Bytes of anonymous resident memory of this process. */
  readonly residentBytes: () => number;
  readonly watched: () => Iterable<W>;
  /** Called for what must be ended, with the reason. */
  readonly onTimeLimit: (watched: W) => void;
  readonly onMemoryBound: (watched: W, grownBytes: number) => void;
}

export class HookWatch<W extends Watched> implements Disposable {
  private timer: Timer | undefined;

  constructor(private readonly options: WatchOptions<W>) {}

  /** Something runs: looks after it from now on until nothing does. */
  start(): void {
    this.timer ??= this.options.clock.after(HOOK_WATCH_NS, () => this.look());
  }

  private look(): void {
    this.timer = undefined;
    const nowNs = this.options.clock.nowNs();
    const running = [...this.options.watched()].filter((each) => each.runningNs(nowNs) !== undefined);
    const late = running.filter((each) => each.runningNs(nowNs)! > each.timeLimitMs * NS_PER_MS);
    for (const each of late) this.options.onTimeLimit(each);
    this.lookAtMemory(
      running.filter((each) => !late.includes(each)),
      nowNs,
    );
    // A thread that still starts runs nothing yet, but its order is due: the watch must not end before it has begun.
    for (const { timeLimitMs } of this.options.watched()) if (timeLimitMs < Number.POSITIVE_INFINITY) this.start();
  }

  private lookAtMemory(running: readonly W[], nowNs: number): void {
    const { memoryBoundBytes, residentBytes, onMemoryBound } = this.options;
    if (running.length === 0) return;
    const resident = residentBytes();
    let suspect: W | undefined;
    for (const each of running) {
      each.baselineBytes ??= resident;
      if (resident - each.baselineBytes <= memoryBoundBytes) continue;
      if (!suspect || each.runningNs(nowNs)! > suspect.runningNs(nowNs)!) suspect = each;
    }
    if (!suspect) return;
    onMemoryBound(suspect, resident - suspect.baselineBytes!);
    // Its memory is given back only later: until then the others must not be held to the old figure.
    for (const each of running) if (each !== suspect) each.baselineBytes = resident;
  }

  [Symbol.dispose](): void {
    this.timer?.cancel();
  }
}

// The deadlines of all calls of a server: one timer, at the earliest of them.
//
// A binary heap whose entries know their place, so a call that ends takes its deadline out; a timer of its own for each
// call would cost more than the call. Invariant: `expire` runs at most once an entry, never before its time. Used by
// `rpc.ts`.

import type { Clock, Timer } from "../base/clock.ts";

/** Something with a deadline. `heapIndex` belongs to the heap and is -1 outside it. */
export interface Expiring {
  readonly deadlineNs: number | undefined;
  heapIndex: number;
  expire(): void;
}

export class Deadlines {
  private readonly heap: Expiring[] = [];
  private timer: Timer | undefined;
  private timerAtNs = Number.POSITIVE_INFINITY;

  constructor(private readonly clock: Clock) {}

  /** Entries that wait. */
  get size(): number {
    return this.heap.length;
  }

  add(entry: Expiring): void {
    this.heap.push(entry);
    this.rise(entry, this.heap.length - 1);
    if (this.heap[0] === entry) this.arm();
  }

  /** Takes an entry out; one that is not in does nothing. The timer stays as it is: it may fire for nothing. */
  remove(entry: Expiring): void {
    const index = entry.heapIndex;
    if (index < 0) return;
    entry.heapIndex = -1;
    const last = this.heap.pop()!;
    if (last === entry) return;
    this.rise(last, index);
    this.sink(last, last.heapIndex);
  }

  /** Forgets every entry. */
  clear(): void {
    for (const entry of this.heap) entry.heapIndex = -1;
    this.heap.length = 0;
    this.timer?.cancel();
    this.timer = undefined;
    this.timerAtNs = Number.POSITIVE_INFINITY;
  }

  private arm(): void {
    const first = this.heap[0];
    if (first === undefined || first.deadlineNs! >= this.timerAtNs) return;
    this.timer?.cancel();
    this.timerAtNs = first.deadlineNs!;
    this.timer = this.clock.after(this.timerAtNs - this.clock.nowNs(), () => this.fire());
  }

  private fire(): void {
    this.timer = undefined;
    this.timerAtNs = Number.POSITIVE_INFINITY;
    const nowNs = this.clock.nowNs();
    while (this.heap.length > 0 && this.heap[0]!.deadlineNs! <= nowNs) {
      const entry = this.heap[0]!;
      this.remove(entry);
      entry.expire();
    }
    this.arm();
  }

  private rise(entry: Expiring, index: number): void {
    while (index > 0) {
      const parentIndex = (index - 1) >> 1;
      const parent = this.heap[parentIndex]!;
      if (parent.deadlineNs! <= entry.deadlineNs!) break;
      this.place(parent, index);
      index = parentIndex;
    }
    this.place(entry, index);
  }

  private sink(entry: Expiring, index: number): void {
    for (;;) {
      let childIndex = 2 * index + 1;
      if (childIndex >= this.heap.length) break;
      const right = childIndex + 1;
      if (right < this.heap.length && this.heap[right]!.deadlineNs! < this.heap[childIndex]!.deadlineNs!)
        childIndex = right;
      const child = this.heap[childIndex]!;
      if (child.deadlineNs! >= entry.deadlineNs!) break;
      this.place(child, index);
      index = childIndex;
    }
    this.place(entry, index);
  }

  private place(entry: Expiring, index: number): void {
    this.heap[index] = entry;
    entry.heapIndex = index;
  }
}

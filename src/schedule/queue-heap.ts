// A binary min-heap of model queues by a number, with change and removal of any entry in O(log n).
//
// Used by the disciplines (by arrival, deadline, virtual time) and by the scheduler (by the time a wait ends).

import type { ModelQueue } from "./ticket.ts";

interface Entry {
  readonly queue: ModelQueue;
  key: number;
}

export class QueueHeap {
  private readonly entries: Entry[] = [];
  private readonly positions = new Map<ModelQueue, number>();

  smallest(): Readonly<Entry> | undefined {
    return this.entries[0];
  }

  /** Adds the queue, or changes its key. */
  set(queue: ModelQueue, key: number): void {
    const at = this.positions.get(queue);
    if (at === undefined) {
      this.entries.push({ queue, key });
      this.positions.set(queue, this.entries.length - 1);
      this.rise(this.entries.length - 1);
      return;
    }
    const entry = this.entries[at]!;
    if (entry.key === key) return;
    entry.key = key;
    this.rise(at);
    this.sink(this.positions.get(queue)!);
  }

  delete(queue: ModelQueue): void {
    const at = this.positions.get(queue);
    if (at === undefined) return;
    this.positions.delete(queue);
    const last = this.entries.pop()!;
    if (last.queue === queue) return;
    this.entries[at] = last;
    this.positions.set(last.queue, at);
    this.rise(at);
    this.sink(this.positions.get(last.queue)!);
  }

  private rise(at: number): void {
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (this.entries[parent]!.key <= this.entries[at]!.key) return;
      this.swap(at, parent);
      at = parent;
    }
  }

  private sink(at: number): void {
    for (;;) {
      const left = 2 * at + 1;
      if (left >= this.entries.length) return;
      const right = left + 1;
      const child = right < this.entries.length && this.entries[right]!.key < this.entries[left]!.key ? right : left;
      if (this.entries[at]!.key <= this.entries[child]!.key) return;
      this.swap(at, child);
      at = child;
    }
  }

  private swap(a: number, b: number): void {
    const first = this.entries[a]!;
    const second = this.entries[b]!;
    this.entries[a] = second;
    this.entries[b] = first;
    this.positions.set(second.queue, a);
    this.positions.set(first.queue, b);
  }
}

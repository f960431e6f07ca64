// fifo: the model whose front ticket arrived first runs next. Arrival is a unique sequence number, so no ties exist.
//
// Fair to requests, not to models: a model with many requests gets the device in proportion to them.

import type { Discipline } from "./discipline.ts";
import { QueueHeap } from "./queue-heap.ts";
import type { ModelQueue } from "./ticket.ts";

export class Fifo implements Discipline {
  readonly name = "fifo";
  private readonly heap = new QueueHeap();

  ready(queue: ModelQueue): void {
    this.heap.set(queue, queue.front!.sequence);
  }

  idle(queue: ModelQueue): void {
    this.heap.delete(queue);
  }

  choose(): ModelQueue | undefined {
    return this.heap.smallest()?.queue;
  }
}

// Discipline: which of the models that could run now runs next. One file an implementation.
//
// The scheduler tells it of every queue that became ready, changed its front, or stopped being ready; choosing is
// O(log models). A discipline sees queues and times, never requests' contents.

import type { ModelQueue } from "./ticket.ts";

export interface Discipline {
  readonly name: string;
  /** The queue is ready with a new front ticket. Called again whenever the front changes. */
  ready(queue: ModelQueue): void;
  /** The queue has nothing to run now. */
  idle(queue: ModelQueue): void;
  /** The queue to serve next; undefined when none is ready. */
  choose(nowNs: number): ModelQueue | undefined;
}

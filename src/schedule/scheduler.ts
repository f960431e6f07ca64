// The scheduler: queues of tickets in, batches out. Plain data; the caller brings the time and acts on the decision.
//
// A queue with tickets is either ready (its discipline may choose it) or waits to fill its batch (max_queue_delay_us),
// at most half of its tightest deadline's time. Tickets whose deadline has passed leave at select, never into a batch.

import { ServerError } from "../base/errors.ts";
import { planBatch } from "./batch-plan.ts";
import type { Discipline } from "./discipline.ts";
import { QueueHeap } from "./queue-heap.ts";
import { type Batch, type BatchRules, ModelQueue, type Ticket } from "./ticket.ts";

/** What to do now: run a batch, look again at a time, or nothing until the next enqueue. */
export type Selection =
  | { readonly kind: "batch"; readonly batch: Batch; readonly expired: readonly Ticket[] }
  | { readonly kind: "wait"; readonly untilNs: number; readonly expired: readonly Ticket[] }
  | { readonly kind: "idle"; readonly expired: readonly Ticket[] };

export class Scheduler {
  private readonly filling = new QueueHeap();
  private sequence = 0;

  constructor(private readonly discipline: Discipline) {}

  addModel(rules: BatchRules): ModelQueue {
    return new ModelQueue(rules);
  }

  /**
   * Queues `rows` rows of one request as tickets of at most `limit` rows each, in order, all or none.
   * Errors: RESOURCE_EXHAUSTED when the model's queue has no room for them.
   */
  enqueue(
    queue: ModelQueue,
    variant: number,
    rows: number,
    limit: number,
    nowNs: number,
    deadlineNs: number,
  ): Ticket[] {
    const { name, maxQueueDepth } = queue.rules;
    const pieces = Math.ceil(rows / limit);
    if (queue.depth + pieces > maxQueueDepth) {
      const needs = pieces > 1 ? `, the request's ${rows} rows need ${pieces} executions` : "";
      throw new ServerError(
        "RESOURCE_EXHAUSTED",
        `model '${name}': queue is full (${queue.depth} waiting, max_queue_depth ${maxQueueDepth}${needs})`,
      );
    }
    const tickets: Ticket[] = [];
    for (let from = 0; from < rows; from += limit) {
      const ticket: Ticket = {
        sequence: this.sequence++,
        queue,
        variant,
        rows: Math.min(limit, rows - from),
        enqueuedNs: nowNs,
        deadlineNs,
        state: "new",
      };
      queue.push(ticket);
      tickets.push(ticket);
    }
    this.update(queue, nowNs);
    return tickets;
  }

  /** Takes a waiting ticket out for good; false when it runs already or is gone. */
  remove(ticket: Ticket, nowNs: number): boolean {
    if (!ticket.queue.take(ticket, "removed")) return false;
    this.update(ticket.queue, nowNs);
    return true;
  }

  /**
   * The next batch, taken out of its queue. With `fullOnly`, a batch that could still grow is left in its queue: the
   * device is busy for a while yet, so committing now would only keep later arrivals out.
   */
  select(nowNs: number, fullOnly = false): Selection {
    const expired: Ticket[] = [];
    for (let end = this.filling.smallest(); end && end.key <= nowNs; end = this.filling.smallest()) {
      this.filling.delete(end.queue);
      this.discipline.ready(end.queue);
    }
    for (;;) {
      const queue = this.discipline.choose(nowNs);
      if (!queue) break;
      this.expire(queue, nowNs, expired);
      // Without the tickets that were too late it may be another queue's turn, or time to wait for company.
      if (this.discipline.choose(nowNs) !== queue) continue;
      const batch = planBatch(queue);
      if (fullOnly && !batch.full) return { kind: "idle", expired };
      for (const ticket of batch.tickets) queue.take(ticket, "taken");
      this.update(queue, nowNs);
      return { kind: "batch", batch, expired };
    }
    const next = this.filling.smallest();
    return next ? { kind: "wait", untilNs: next.key, expired } : { kind: "idle", expired };
  }

  /** Drops the tickets of the front batch that are too late, until what would run is all in time. */
  private expire(queue: ModelQueue, nowNs: number, expired: Ticket[]): void {
    for (;;) {
      const late = queue.depth === 0 ? [] : planBatch(queue).tickets.filter((ticket) => ticket.deadlineNs <= nowNs);
      if (late.length === 0) break;
      for (const ticket of late) {
        queue.take(ticket, "removed");
        expired.push(ticket);
      }
    }
    this.update(queue, nowNs);
  }

  /** Puts the queue where its front belongs: ready, filling, or idle. */
  private update(queue: ModelQueue, nowNs: number): void {
    const untilNs = queue.depth === 0 ? -Infinity : this.fillsUntil(queue);
    if (untilNs > nowNs) {
      this.discipline.idle(queue);
      this.filling.set(queue, untilNs);
      return;
    }
    this.filling.delete(queue);
    if (queue.depth === 0) this.discipline.idle(queue);
    else this.discipline.ready(queue);
  }

  /** When the front stops waiting for company; -Infinity when it need not wait at all. */
  private fillsUntil(queue: ModelQueue): number {
    const { maxQueueDelayNs } = queue.rules;
    if (maxQueueDelayNs === 0) return -Infinity;
    const batch = planBatch(queue);
    if (batch.full) return -Infinity;
    let untilNs = queue.front!.enqueuedNs + maxQueueDelayNs;
    for (const { enqueuedNs, deadlineNs } of batch.tickets) {
      // Waiting may cost a request half of the time it has, so that the other half is left to run in.
      untilNs = Math.min(untilNs, enqueuedNs + (deadlineNs - enqueuedNs) / 2);
    }
    return untilNs;
  }
}

// The batch plan: how many of a queue's front tickets run together, and at which compiled size.
//
// Pure arithmetic over the front run of equal variants. The front ticket is always taken, so progress is certain; its
// rows never exceed the largest size (larger requests were split before they were queued). The size is the largest that
// the waiting rows fill, as in the reference system, or a larger one, padded, where that costs less for each row: six
// rows of a small model run once at size 8 instead of six times at size 1. A size that rows fill is never passed over,
// so a wrong estimate is soon measured anew. Called by Scheduler.

import { type Batch, type ModelQueue, rowLimit, type Ticket } from "./ticket.ts";

/** The batch that the front of a queue would make now. The queue must not be empty; nothing is taken out yet. */
export function planBatch(queue: ModelQueue): Batch {
  const front = queue.front!;
  const { rules } = queue;
  const { variant } = front;
  const sizes = rules.sizes[variant]!;
  if (!rules.coalescable) {
    const size = sizes[0] === 0 ? 0 : smallestHolding(sizes, front.rows);
    return { queue, variant, size, rows: front.rows, tickets: [front], full: true };
  }
  const limit = rowLimit(rules, variant);
  const { available, ended } = frontRun(queue, limit);
  const filled = largestFilled(sizes, available, front.rows);
  const size = cheapestFrom(filled, queue, available);
  const bound = Math.min(size, rules.maxBatchSize);
  const tickets: Ticket[] = [];
  let rows = 0;
  for (const ticket of queue.waiting()) {
    if (ticket.variant !== variant || (tickets.length > 0 && rows + ticket.rows > bound)) break;
    tickets.push(ticket);
    rows += ticket.rows;
    if (rows >= bound) break;
  }
  return { queue, variant, size, rows, tickets, full: ended };
}

/**
 * Rows of the front's variant that wait in front, as many as fit into `limit`, and whether more could not join them:
 * the limit is reached, or the next ticket has another variant or too many rows.
 */
function frontRun(queue: ModelQueue, limit: number): { available: number; ended: boolean } {
  const { variant } = queue.front!;
  let available = 0;
  for (const ticket of queue.waiting()) {
    if (available > 0 && (ticket.variant !== variant || available + ticket.rows > limit)) {
      return { available, ended: true };
    }
    available += ticket.rows;
    if (available >= limit) return { available: limit, ended: true };
  }
  return { available, ended: false };
}

/** The size of `filled` and above with the least expected cost for each row it would serve; `filled` if unknown. */
function cheapestFrom(filled: number, { front, rules }: ModelQueue, available: number): number {
  const { variant } = front!;
  const costOfRow = (size: number) => (rules.costNs(variant, size) ?? Number.NaN) / Math.min(available, size);
  let cheapest = filled;
  for (const size of rules.sizes[variant]!) {
    if (size > filled && size <= rules.maxBatchSize && costOfRow(size) < costOfRow(cheapest)) cheapest = size;
  }
  return cheapest;
}

/** The largest size that the waiting rows fill, else the smallest; raised where the front alone needs more. */
function largestFilled(sizes: readonly number[], available: number, frontRows: number): number {
  let chosen = sizes[0]!;
  for (const size of sizes) if (size <= available) chosen = size;
  return chosen < frontRows ? smallestHolding(sizes, frontRows) : chosen;
}

/** The smallest size of at least `rows`, else the largest. */
function smallestHolding(sizes: readonly number[], rows: number): number {
  return sizes.find((size) => size >= rows) ?? sizes.at(-1)!;
}

// The batch plan: how many of a queue's front tickets run together, and at which compiled size.
//
// Pure arithmetic over the front run of equal variants. The front ticket is always taken, so progress is certain; its
// rows never exceed the largest size (larger requests were split before they were queued). While costs are unknown the
// largest size that the waiting rows fill is taken, as the reference system does; once they are learned, the size that
// serves a row for the least device time, padding and all. Called by Scheduler.

import type { Batch, ModelQueue, Ticket } from "./ticket.ts";

/** The batch that the front of a queue would make now. The queue must not be empty; nothing is taken out yet. */
export function planBatch(queue: ModelQueue): Batch {
  const front = queue.front!;
  const { rules } = queue;
  const sizes = rules.sizes[front.variant]!;
  if (!rules.coalescable) {
    const size = sizes[0] === 0 ? 0 : smallestHolding(sizes, front.rows);
    return { queue, variant: front.variant, size, rows: front.rows, tickets: [front], full: true };
  }
  const limit = Math.min(sizes.at(-1)!, rules.maxBatchSize);
  const available = rowsAvailable(queue, limit);
  const size = cheapestSize(queue, front.variant, sizes, available) ?? largestFilled(sizes, available, front.rows);
  const bound = Math.min(size, rules.maxBatchSize);
  const tickets: Ticket[] = [];
  let rows = 0;
  for (const ticket of queue.waiting()) {
    if (ticket.variant !== front.variant || (tickets.length > 0 && rows + ticket.rows > bound)) break;
    tickets.push(ticket);
    rows += ticket.rows;
    if (rows >= bound) break;
  }
  return { queue, variant: front.variant, size, rows, tickets, full: rows >= limit };
}

/** Rows in the leading run of the front's variant, counted up to `limit`. */
function rowsAvailable(queue: ModelQueue, limit: number): number {
  const variant = queue.front!.variant;
  let rows = 0;
  for (const ticket of queue.waiting()) {
    if (ticket.variant !== variant) break;
    rows += ticket.rows;
    if (rows >= limit) return limit;
  }
  return rows;
}

/**
 * The size with the least cost for each row it would serve; of equals, the one that serves more rows, then the smaller.
 * Six rows of a small model run once at size 8 instead of six times at size 1. Undefined while a size that could serve
 * the front has no known cost.
 */
function cheapestSize(
  { front, rules }: ModelQueue,
  variant: number,
  sizes: readonly number[],
  available: number,
): number | undefined {
  let cheapest: number | undefined;
  let mostRows = 0;
  let leastCost = Number.POSITIVE_INFINITY;
  for (const size of sizes) {
    if (size < front!.rows) continue;
    const costNs = rules.costNs(variant, size);
    if (costNs === undefined) return undefined;
    const rows = Math.min(available, size);
    const costOfRow = costNs / rows;
    if (costOfRow > leastCost || (costOfRow === leastCost && rows <= mostRows)) continue;
    cheapest = size;
    mostRows = rows;
    leastCost = costOfRow;
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

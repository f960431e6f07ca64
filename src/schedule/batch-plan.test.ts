// The batch plan against the tables of its specification, and its invariants on random queues.
import { expect, test } from "bun:test";
import { planBatch } from "./batch-plan.ts";
import { type BatchRules, ModelQueue } from "./ticket.ts";

function queueOf(rows: readonly number[], rules: Partial<BatchRules> & { sizes: number[][] }, variants: number[] = []) {
  const queue = new ModelQueue({
    name: "m",
    coalescable: true,
    maxBatchSize: Infinity,
    maxQueueDelayNs: 0,
    maxQueueDepth: 1000,
    costNs: () => undefined,
    ...rules,
  });
  rows.forEach((count, index) => {
    queue.push({
      sequence: index,
      queue,
      variant: variants[index] ?? 0,
      rows: count,
      enqueuedNs: index,
      deadlineNs: Infinity,
      state: "new",
    });
  });
  return queue;
}

const cases: [sizes: number[], cap: number, rows: number[], size: number, taken: number][] = [
  [[1, 4, 8], Infinity, [2, 2, 2], 4, 2],
  [[1, 4, 8], Infinity, [6, 1], 8, 2],
  [[1, 4, 8], 4, [2, 2, 2, 2], 4, 2],
  [[4, 8], 2, [1, 1, 1], 4, 2],
  [[4, 8], 2, [6, 1], 8, 1],
  [[1, 4, 8], Infinity, [1], 1, 1],
  [[1, 4, 8], Infinity, [1, 1, 1, 1, 1, 1, 1, 1, 1], 8, 8],
  [[1, 4, 8], Infinity, [8, 8], 8, 1],
  [[4], Infinity, [1], 4, 1],
  [[2, 4], Infinity, [3, 3], 4, 1],
];

for (const [sizes, cap, rows, size, taken] of cases) {
  test(`sizes ${sizes}, cap ${cap}, rows ${rows}: size ${size}, takes ${taken}`, () => {
    const batch = planBatch(queueOf(rows, { sizes: [sizes], maxBatchSize: cap }));
    expect([batch.size, batch.tickets.length]).toEqual([size, taken]);
  });
}

test("with known costs, the size that serves a row for the least time is taken", () => {
  const flat = () => 50;
  const linear = (_: number, size: number) => 50 + 100 * size;
  const plan = (rows: readonly number[], costNs: BatchRules["costNs"]) => {
    const { size, tickets } = planBatch(queueOf(rows, { sizes: [[1, 8, 64]], costNs }));
    return [size, tickets.length];
  };
  expect(plan([1, 1, 1, 1, 1, 1], flat)).toEqual([8, 6]);
  expect(plan([1, 1, 1, 1, 1, 1], linear)).toEqual([8, 6]);
  expect(plan([1, 1], linear)).toEqual([1, 1]);
  expect(plan([1], linear)).toEqual([1, 1]);
  expect(plan([9, 1], linear)).toEqual([64, 2]);
  expect(plan([1, 1, 1, 1, 1, 1], (_, size) => (size === 1 ? 50 : undefined))).toEqual([1, 1]);
});

test("a size that rows fill is taken however dear it looks, so that it is measured", () => {
  const batch = planBatch(queueOf([4, 4, 1], { sizes: [[1, 8]], costNs: (_, size) => (size === 8 ? 1e9 : 1) }));
  expect([batch.size, batch.tickets.length]).toEqual([8, 2]);
});

test("a batch is full when no later row could join it", () => {
  const full = (rows: readonly number[], sizes: number[], variants: number[] = [], maxBatchSize = Infinity) =>
    planBatch(queueOf(rows, { sizes: [sizes, sizes], maxBatchSize }, variants)).full;
  expect(full([1, 1], [1, 4])).toBe(false);
  expect(full([1, 1, 1, 1], [1, 4])).toBe(true);
  expect(full([1, 1], [1, 4], [0, 1])).toBe(true);
  expect(full([3, 3], [4])).toBe(true);
  expect(full([1, 1], [1, 8], [], 2)).toBe(true);
  expect(full([1], [2, 8], [], 3)).toBe(false);
});

test("only the leading run of the front's variant is taken", () => {
  const queue = queueOf(
    [1, 1, 1, 1],
    {
      sizes: [
        [1, 4],
        [1, 4],
      ],
    },
    [1, 1, 0, 1],
  );
  const batch = planBatch(queue);
  expect([batch.variant, batch.size, batch.tickets.length]).toEqual([1, 1, 1]);
});

test("a model that is not coalescable runs one request at its own size", () => {
  expect(planBatch(queueOf([1, 1], { sizes: [[0]], coalescable: false })).size).toBe(0);
  const batch = planBatch(queueOf([2, 1], { sizes: [[1, 2]], coalescable: false }));
  expect([batch.size, batch.tickets.length]).toEqual([2, 1]);
});

test("tickets taken from the middle are skipped", () => {
  const queue = queueOf([1, 1, 1, 1], { sizes: [[1, 4]] });
  const [first, second] = [...queue.waiting()];
  queue.take(second!, "removed");
  queue.take(first!, "removed");
  expect(queue.depth).toBe(2);
  expect(queue.front!.sequence).toBe(2);
  expect(planBatch(queue).tickets.map((ticket) => ticket.sequence)).toEqual([2]);
});

test("random queues: the front is in, rows fit the size, order is kept, a full batch can't grow", () => {
  const seed = Number(process.env.XLASERVER_TEST_SEED ?? 1);
  let state = seed;
  const random = (below: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state % below;
  };
  for (let round = 0; round < 2000; round++) {
    const sizes = [...new Set([1 + random(3), 1 + random(8), 1 + random(64)])].sort((a, b) => a - b);
    const rows = Array.from({ length: 1 + random(20) }, () => 1 + random(sizes.at(-1)!));
    const costNs =
      random(2) === 0 ? () => undefined : (_: number, size: number) => 30 + (size * (10 + random(50))) / 10;
    const queue = queueOf(rows, { sizes: [sizes], costNs });
    const batch = planBatch(queue);
    const label = `seed ${seed} round ${round}: sizes ${sizes} rows ${rows}`;
    const sum = batch.tickets.reduce((total, ticket) => total + ticket.rows, 0);
    expect(batch.tickets[0], label).toBe(queue.front!);
    expect(sizes.includes(batch.size) && sum === batch.rows && sum <= batch.size, label).toBe(true);
    expect(
      batch.tickets.every((ticket, index) => ticket.sequence === index),
      label,
    ).toBe(true);
  }
});

// The scheduler by hand-written stories: order, delay windows, deadlines, removal, bounds.
import { expect, test } from "bun:test";
import { Fifo } from "./fifo.ts";
import { Scheduler } from "./scheduler.ts";
import type { BatchRules } from "./ticket.ts";

function rules(name: string, changes: Partial<BatchRules> = {}): BatchRules {
  return {
    name,
    sizes: [[1, 4]],
    coalescable: true,
    maxBatchSize: Infinity,
    maxQueueDelayNs: 0,
    maxQueueDepth: 8,
    costNs: () => undefined,
    ...changes,
  };
}

function selected(scheduler: Scheduler, nowNs: number, fullOnly = false) {
  const selection = scheduler.select(nowNs, fullOnly);
  if (selection.kind !== "batch") return selection.kind;
  return `${selection.batch.queue.rules.name}x${selection.batch.tickets.length}`;
}

test("fifo serves the model whose front came first, batching what waits behind it", () => {
  const scheduler = new Scheduler(new Fifo());
  const a = scheduler.addModel(rules("a"));
  const b = scheduler.addModel(rules("b"));
  scheduler.enqueue(a, 0, 1, 1, 0, Infinity);
  scheduler.enqueue(b, 0, 1, 1, 1, Infinity);
  scheduler.enqueue(a, 0, 3, 1, 2, Infinity);
  expect([0, 1, 2].map(() => selected(scheduler, 3))).toEqual(["ax4", "bx1", "idle"]);
});

test("a queue is bounded, and a split request enters whole or not at all", () => {
  const scheduler = new Scheduler(new Fifo());
  const queue = scheduler.addModel(rules("a", { maxQueueDepth: 2 }));
  scheduler.enqueue(queue, 0, 1, 1, 0, Infinity);
  expect(() => scheduler.enqueue(queue, 0, 8, 4, 0, Infinity)).toThrow(
    "queue is full (1 waiting, max_queue_depth 2, the request's 8 rows need 2 executions)",
  );
  expect(queue.depth).toBe(1);
});

test("a queue delay waits for company, ends when full, and is over at its time", () => {
  const scheduler = new Scheduler(new Fifo());
  const queue = scheduler.addModel(rules("a", { maxQueueDelayNs: 100 }));
  scheduler.enqueue(queue, 0, 1, 1, 0, Infinity);
  expect(scheduler.select(50)).toEqual({ kind: "wait", untilNs: 100, expired: [] });
  expect(selected(scheduler, 100)).toBe("ax1");
  scheduler.enqueue(queue, 0, 1, 1, 200, Infinity);
  expect(selected(scheduler, 201)).toBe("wait");
  scheduler.enqueue(queue, 0, 3, 1, 202, Infinity);
  expect(selected(scheduler, 203)).toBe("ax4");
});

test("a queue delay takes at most half of the tightest deadline's time", () => {
  const scheduler = new Scheduler(new Fifo());
  const queue = scheduler.addModel(rules("a", { maxQueueDelayNs: 1000 }));
  scheduler.enqueue(queue, 0, 1, 1, 0, Infinity);
  scheduler.enqueue(queue, 0, 1, 1, 10, 110);
  // Two rows fill size 1 only; the batch that would run is the front's, whose deadline is far away.
  expect(scheduler.select(20)).toMatchObject({ kind: "wait", untilNs: 1000 });
  const tight = scheduler.addModel(rules("b", { maxQueueDelayNs: 1000 }));
  scheduler.enqueue(tight, 0, 1, 1, 20, 220);
  expect(scheduler.select(20)).toMatchObject({ kind: "wait", untilNs: 120 });
});

test("tickets that are too late leave as expired and never run", () => {
  const scheduler = new Scheduler(new Fifo());
  const queue = scheduler.addModel(rules("a"));
  scheduler.enqueue(queue, 0, 1, 1, 0, 10);
  scheduler.enqueue(queue, 0, 1, 1, 0, Infinity);
  const selection = scheduler.select(10);
  expect(selection.expired.map((ticket) => ticket.sequence)).toEqual([0]);
  expect(selection.kind === "batch" && selection.batch.tickets.map((ticket) => ticket.sequence)).toEqual([1]);
});

test("full-only leaves a batch that could still grow where it is", () => {
  const scheduler = new Scheduler(new Fifo());
  const queue = scheduler.addModel(rules("a"));
  scheduler.enqueue(queue, 0, 3, 1, 0, Infinity);
  expect(selected(scheduler, 0, true)).toBe("idle");
  scheduler.enqueue(queue, 0, 1, 1, 0, Infinity);
  expect(selected(scheduler, 0, true)).toBe("ax4");
});

test("a removed ticket frees its place and is not removed twice", () => {
  const scheduler = new Scheduler(new Fifo());
  const queue = scheduler.addModel(rules("a"));
  const [first] = scheduler.enqueue(queue, 0, 1, 1, 0, Infinity);
  expect(scheduler.remove(first!, 0)).toBe(true);
  expect(scheduler.remove(first!, 0)).toBe(false);
  expect(selected(scheduler, 0)).toBe("idle");
});

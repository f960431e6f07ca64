// The spine on the fake device, by hand-written stories: coalescing, splitting, cancelling, deadlines, failures.
import { expect, test } from "bun:test";
import { fakeServing, values } from "../../tests/support/fake-serving.ts";
import { ServerError } from "../base/errors.ts";
import type { Reply } from "../call/call.ts";

const counting = (rows: number, first: number, width = 4) => Array.from({ length: rows * width }, (_, i) => first + i);

/** The status of a request; a reply is released. */
async function codeOf(promise: Promise<Reply>): Promise<string> {
  return promise.then(
    (reply) => {
      reply.release();
      return "OK";
    },
    (error) => (error instanceof ServerError ? error.code : String(error)),
  );
}

test("requests that arrive together share an execution, each gets its own rows", async () => {
  await using serving = await fakeServing([{ name: "m", sizes: [1, 4] }]);
  const sent = [0, 100, 200, 300].map((first) => serving.send("m", 1, first));
  await serving.settle();
  expect(serving.device.counts.executed).toBe(1);
  for (const [index, { reply }] of sent.entries()) expect(values(await reply)).toEqual(counting(1, index * 100));
});

test("a short batch is padded with zeros and the padding is not seen", async () => {
  const seen: number[] = [];
  await using serving = await fakeServing([{ name: "m", sizes: [4], operation: "spy" }], {
    operations: {
      spy([input], [output]) {
        seen.push(...new Float32Array(input!.slice().buffer));
        output!.set(input!);
      },
    },
  });
  const first = serving.send("m", 4, 50);
  await serving.settle();
  values(await first.reply);
  seen.length = 0;
  const { reply } = serving.send("m", 3, 1);
  await serving.settle();
  expect(values(await reply)).toEqual(counting(3, 1));
  expect(seen).toEqual([...counting(3, 1), 0, 0, 0, 0]);
});

test("a request larger than the largest size is split and rejoined in order", async () => {
  await using serving = await fakeServing([{ name: "m", sizes: [1, 4] }]);
  const { reply } = serving.send("m", 11, 7);
  await serving.settle();
  const answer = await reply;
  expect(answer.outputs[0]!.shape).toEqual([11, 4]);
  expect(values(answer)).toEqual(counting(11, 7));
});

test("max_batch_size caps an execution's rows", async () => {
  await using serving = await fakeServing([{ name: "m", sizes: [1, 8], limits: { maxBatchSize: 2 } }]);
  const { reply } = serving.send("m", 5, 0);
  await serving.settle();
  expect(values(await reply)).toEqual(counting(5, 0));
});

test("a failed execution fails its own requests only", async () => {
  await using serving = await fakeServing([{ name: "m", sizes: [1] }], {
    script: {
      onExecute: (_, index) =>
        index === 1 ? { error: new ServerError("RESOURCE_EXHAUSTED", "no memory") } : undefined,
    },
  });
  const sent = [0, 1, 2].map((first) => serving.send("m", 1, first));
  await serving.settle();
  expect(await Promise.all(sent.map(({ reply }) => codeOf(reply)))).toEqual(["OK", "RESOURCE_EXHAUSTED", "OK"]);
});

test("one failed part fails a split request once, and its other parts are given back", async () => {
  await using serving = await fakeServing([{ name: "m", sizes: [4] }], {
    slabBytes: 1 << 20,
    script: { onExecute: (_, index) => (index === 1 ? { error: new ServerError("INTERNAL", "broken") } : undefined) },
  });
  const { reply } = serving.send("m", 20);
  const other = serving.send("m", 1, 3);
  await serving.settle();
  expect(await codeOf(reply)).toBe("INTERNAL");
  expect(values(await other.reply)).toEqual(counting(1, 3));
});

test("a cancelled request leaves the queue and is never executed", async () => {
  await using serving = await fakeServing([{ name: "m", sizes: [1] }]);
  const sent = [0, 1, 2, 3, 4].map((first) => serving.send("m", 1, first));
  await Promise.resolve();
  sent[4]!.cancel();
  sent[3]!.cancel();
  await serving.settle();
  expect(await Promise.all(sent.map(({ reply }) => codeOf(reply)))).toEqual([
    "OK",
    "OK",
    "OK",
    "CANCELLED",
    "CANCELLED",
  ]);
  expect(serving.device.counts.executed).toBe(3);
});

test("a request that waits past its timeout gets DEADLINE_EXCEEDED, in time, and never runs", async () => {
  await using serving = await fakeServing([{ name: "m", sizes: [1], costNs: 10e6 }]);
  const sent = [0, 1, 2].map((first) => serving.send("m", 1, first));
  const late = serving.send("m", 1, 9, { parameters: new Map([["timeout", 5000n]]) });
  let lateNs = 0;
  late.reply.catch(() => {
    lateNs = serving.clock.nowNs();
  });
  await serving.settle();
  expect(await codeOf(late.reply)).toBe("DEADLINE_EXCEEDED");
  expect(lateNs).toBeLessThanOrEqual(10e6);
  expect(await Promise.all(sent.map(({ reply }) => codeOf(reply)))).toEqual(["OK", "OK", "OK"]);
  expect(serving.device.counts.executed).toBe(3);
});

test("a full queue refuses with RESOURCE_EXHAUSTED, bytes in flight are bounded", async () => {
  await using serving = await fakeServing([{ name: "m", sizes: [1], limits: { maxQueueDepth: 2 } }]);
  const sent = [0, 1, 2].map((first) => serving.send("m", 1, first));
  await serving.settle();
  expect(await Promise.all(sent.map(({ reply }) => codeOf(reply)))).toEqual(["OK", "OK", "RESOURCE_EXHAUSTED"]);
  await using small = await fakeServing([{ name: "m", sizes: [1] }], { maxInflightBytes: 40 });
  const two = [0, 1, 2].map((first) => small.send("m", 1, first));
  await small.settle();
  expect(await Promise.all(two.map(({ reply }) => codeOf(reply)))).toEqual(["OK", "OK", "RESOURCE_EXHAUSTED"]);
  expect(small.inference.admission.inflightBytes).toBe(0);
});

test("a reply counts as bytes in flight until it is released, and others are refused meanwhile", async () => {
  await using serving = await fakeServing([{ name: "m", sizes: [1] }], { maxInflightBytes: 40 });
  const { admission } = serving.inference;
  const unread: Reply[] = [];
  for (const first of [0, 1]) {
    const { reply } = serving.send("m", 1, first);
    await serving.settle();
    unread.push(await reply);
  }
  expect([admission.inflight, admission.inflightBytes]).toEqual([0, 32]);
  const refused = serving.send("m", 1, 2);
  await serving.settle();
  expect(await codeOf(refused.reply)).toBe("RESOURCE_EXHAUSTED");
  for (const reply of unread) reply.release();
  expect(admission.inflightBytes).toBe(0);
  const served = serving.send("m", 1, 3);
  await serving.settle();
  expect(await codeOf(served.reply)).toBe("OK");
});

test("while the device is busy a batch waits to fill; it is committed when full or when the device is about to be free", async () => {
  await using serving = await fakeServing([{ name: "m", sizes: [1, 4], costNs: 20e6 }]);
  const first = serving.send("m", 1, 0);
  await serving.settle();
  values(await first.reply);
  // The cost is known now. One runs; three that come one by one are run together with the fourth.
  const sent = [serving.send("m", 1, 1)];
  for (const value of [2, 3, 4, 5]) {
    serving.clock.after(value * 1e6, () => sent.push(serving.send("m", 1, value)));
  }
  await serving.settle();
  for (const { reply } of sent) values(await reply);
  expect(serving.device.counts.executed).toBe(3);
});

test("a split request never holds a slab while it waits for the next: others go on however small the pool", async () => {
  // Room for two slabs of the smallest class; the request has twenty pieces.
  await using serving = await fakeServing([{ name: "m", sizes: [1] }], { slabBytes: 16 << 10 });
  const split = serving.send("m", 20, 5);
  const other = serving.send("m", 1, 900);
  await serving.settle();
  expect(values(await split.reply)).toEqual(counting(20, 5));
  expect(values(await other.reply)).toEqual(counting(1, 900));
});

test("a request is split by the largest size of its own variant", async () => {
  await using serving = await fakeServing([{ name: "m", variants: { 2: [1, 4], 3: [1, 16] } }]);
  const sent = [2, 3].map((width) => serving.send("m", 6, width, { width }));
  await serving.settle();
  for (const [index, width] of [2, 3].entries()) {
    expect(values(await sent[index]!.reply)).toEqual(counting(6, width, width));
  }
  const unknown = serving.send("m", 1, 0, { width: 5 });
  await serving.settle();
  expect(await unknown.reply.catch((error) => error.message)).toContain("expected one of {d: 2}, {d: 3}");
});

test("rows along an inner axis are placed, padded, split and rejoined", async () => {
  await using serving = await fakeServing([{ name: "m", sizes: [1, 4], rowsLast: true }]);
  // [width, rows]: the value at (d, n) is first + d * rows + n.
  const sent = [serving.send("m", 1, 10), serving.send("m", 3, 20), serving.send("m", 9, 100)];
  await serving.settle();
  for (const [index, [rows, first]] of [
    [1, 10],
    [3, 20],
    [9, 100],
  ].entries()) {
    const answer = await sent[index]!.reply;
    expect(answer.outputs[0]!.shape).toEqual([4, rows!]);
    expect(values(answer)).toEqual(counting(rows!, first!));
  }
});

test("rows are counted against the queue before anything is made for them", async () => {
  await using serving = await fakeServing([{ name: "m", sizes: [1], limits: { maxQueueDepth: 10 } }]);
  const { reply } = serving.send("m", 100_000, 0);
  await serving.settle();
  expect(await reply.catch((error) => error.message)).toContain("rows need 100000 executions");
});

test("results that no reply could carry are refused before they are computed", async () => {
  await using serving = await fakeServing([{ name: "m", sizes: [1, 64] }], { resultBytesMax: 320 });
  const sent = [serving.send("m", 20), serving.send("m", 21)];
  await serving.settle();
  expect(await codeOf(sent[0]!.reply)).toBe("OK");
  expect(await codeOf(sent[1]!.reply)).toBe("RESOURCE_EXHAUSTED");
});

test("a defect goes to the log with its cause, and the client gets INTERNAL", async () => {
  await using serving = await fakeServing([{ name: "m", sizes: [1], operation: "broken" }], {
    operations: {
      broken() {
        throw new TypeError("undefined is not a function");
      },
    },
  });
  const { reply } = serving.send("m", 1);
  await serving.settle();
  expect(await codeOf(reply)).toBe("INTERNAL");
  expect(serving.logged.join("")).toContain("undefined is not a function");
});

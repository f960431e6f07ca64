// The spine on the fake device, by hand-written stories: coalescing, splitting, cancelling, deadlines, failures.
import { expect, test } from "bun:test";
import { fakeServing, values } from "../../tests/support/fake-serving.ts";
import { ServerError } from "../base/errors.ts";

const counting = (rows: number, first: number, width = 4) => Array.from({ length: rows * width }, (_, i) => first + i);

async function codeOf(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => "OK",
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

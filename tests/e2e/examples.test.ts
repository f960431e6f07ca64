// The example bundles as `npm start` serves them: all four ready, and the small ones right to the bit.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { EXAMPLES_DIRECTORY } from "../support/bundles.ts";
import { type KserveClient, kserveClient } from "../support/kserve-client.ts";
import { startWorker, type TestWorker } from "../support/worker.ts";

const START_MS_MAX = 120_000;
/** Neither a compiled batch size nor a multiple of one: padded, or split, by every bundle. */
const ROWS = 67;

let worker: TestWorker;
let client: KserveClient;

beforeAll(async () => {
  worker = await startWorker({ repository: EXAMPLES_DIRECTORY });
  client = kserveClient(worker.address);
}, START_MS_MAX);

afterAll(async () => {
  client?.[Symbol.dispose]();
  await worker?.[Symbol.asyncDispose]();
});

interface Input {
  readonly name: string;
  readonly datatype: string;
  readonly width: number;
  readonly data: Int32Array | Float32Array;
}

/** Sends matrices of `width` columns; resolves to the outputs' bytes in order. */
async function infer(modelName: string, inputs: readonly Input[]): Promise<Uint8Array[]> {
  const reply = await client.call("modelInfer", {
    modelName,
    inputs: inputs.map(({ name, datatype, width, data }) => ({
      name,
      datatype,
      shape: [BigInt(data.length / width), BigInt(width)],
    })),
    rawInputContents: inputs.map(({ data }) => new Uint8Array(data.buffer)),
  });
  return reply.rawOutputContents;
}

test("all are ready", async () => {
  const { models } = await client.call("repositoryIndex", {});
  expect(models.map(({ name, state, reason }) => ({ name, state, reason }))).toEqual(
    ["dense_v2", "identity_fp32", "minilm", "simple"].map((name) => ({ name, state: "READY", reason: "" })),
  );
});

test("simple gives sum and difference, wrapping as 32-bit integers do", async () => {
  const a = Int32Array.from({ length: ROWS * 16 }, (_, at) => at * 7919 - 5000);
  const b = Int32Array.from({ length: ROWS * 16 }, (_, at) => 3 - at * at);
  [a[0], b[0]] = [2 ** 31 - 1, 1];
  const [sum, difference] = await infer("simple", [
    { name: "INPUT0", datatype: "INT32", width: 16, data: a },
    { name: "INPUT1", datatype: "INT32", width: 16, data: b },
  ]);
  expect(new Int32Array(sum!.slice().buffer)).toEqual(a.map((value, at) => value + b[at]!));
  expect(new Int32Array(difference!.slice().buffer)).toEqual(a.map((value, at) => value - b[at]!));
});

test("identity_fp32 gives every bit back, whatever it means", async () => {
  const data = Float32Array.from({ length: ROWS * 16 }, (_, at) => Math.sin(at) * 2 ** ((at % 250) - 125));
  // -0, infinities, a NaN with a payload, the smallest subnormal.
  new Uint32Array(data.buffer).set([0x80000000, 0x7f800000, 0xff800000, 0x7fc12345, 1]);
  const [output] = await infer("identity_fp32", [{ name: "INPUT0", datatype: "FP32", width: 16, data }]);
  expect(output).toEqual(new Uint8Array(data.buffer));
});

test("dense_v2 multiplies by its weights, transposed on loading", async () => {
  const data = Float32Array.from({ length: ROWS * 3 }, (_, at) => 10 ** (at % 3) * (Math.floor(at / 3) + 1));
  const [output] = await infer("dense_v2", [{ name: "x", datatype: "FP32", width: 3, data }]);
  // [1, 10, 100] gives [531, 642] and the biases; row r is r + 1 times that.
  const expected = Float32Array.from({ length: ROWS * 2 }, (_, at) => {
    const factor = Math.floor(at / 2) + 1;
    return at % 2 === 0 ? 531 * factor + 0.5 : 642 * factor + 0.25;
  });
  expect(new Float32Array(output!.slice().buffer)).toEqual(expected);
});

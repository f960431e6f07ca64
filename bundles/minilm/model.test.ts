// The bundle's own tests, run by `xlaserver test`: the hook gives the model what PyTorch's tokenizer gave it, and the
// model gives PyTorch's embeddings.
//
// fixture.json is written by the exporter: sentences, their token counts and the embeddings that PyTorch computes.

import { expect, test } from "bun:test";
import { InvalidInput, type Tensor } from "xlaserver";
import fixture from "./fixture.json";
import model from "./model.ts";

const preprocess = (sentences: string[]) => {
  const data = sentences.map((sentence) => new TextEncoder().encode(sentence));
  const texts: Tensor = { name: "texts", dtype: "bytes", shape: [data.length], data };
  const [ids, mask] = model.preprocess([texts]);
  if (ids?.dtype !== "i64" || mask?.dtype !== "i64") throw new Error("expected two i64 tensors");
  return { ids, mask };
};

/** How many tokens the mask lets through, by row. */
const lengths = (mask: { shape: readonly number[]; data: BigInt64Array }) => {
  const [n = 0, t = 0] = mask.shape;
  return Array.from({ length: n }, (_, row) => mask.data.subarray(row * t, (row + 1) * t).reduce((a, b) => a + b, 0n));
};

test("every sentence has as many tokens as PyTorch's tokenizer gave it", () => {
  for (const { sentence, tokens } of fixture) {
    expect(lengths(preprocess([sentence]).mask)).toEqual([BigInt(tokens)]);
  }
});

test("a request is padded to the shortest variant that holds its longest text", () => {
  const bread = (words: number) => Array(words).fill("bread").join(" ");
  expect(preprocess([""]).ids.shape).toEqual([1, 32]);
  expect(preprocess([bread(30), "short"]).ids.shape).toEqual([2, 32]);
  expect(preprocess([bread(31)]).ids.shape).toEqual([1, 128]);
  expect(preprocess([bread(127)]).ids.shape).toEqual([1, 256]);
  expect(preprocess(["short", bread(1000)]).ids.shape).toEqual([2, 256]);
});

test("rows are token ids, special tokens around them, then padding", () => {
  const { ids } = preprocess(["Hi-Ho"]);
  expect([...ids.data.subarray(0, 6)]).toEqual([101n, 7632n, 1011n, 7570n, 102n, 0n]);
});

test("what is not texts is the client's mistake", () => {
  expect(() => model.preprocess([])).toThrow(InvalidInput);
  const numbers: Tensor = { name: "texts", dtype: "i32", shape: [1], data: Int32Array.of(1) };
  expect(() => model.preprocess([numbers])).toThrow("texts: expected a BYTES tensor");
  const broken: Tensor = { name: "texts", dtype: "bytes", shape: [1], data: [Uint8Array.of(0xff)] };
  expect(() => model.preprocess([broken])).toThrow("UTF-8");
});

// `xlaserver test` runs these tests in the server's own executable, which can run the bundle too. Bun alone can't.
const executable = process.env.BUN_BE_BUN === "1" ? process.execPath : undefined;
const RUN_MS_MAX = 120_000;

test.skipIf(!executable)(
  "the embeddings equal PyTorch's",
  async () => {
    const sentences = JSON.stringify(fixture.map(({ sentence }) => sentence));
    const { BUN_BE_BUN: _, ...env } = process.env;
    const run = Bun.spawn(
      [executable!, "infer", "--bundle", import.meta.dir, "--input", `texts=${sentences}`, "--json"],
      { env },
    );
    const reply = (await new Response(run.stdout).json()) as { outputs: { shape: number[]; data: number[] }[] };
    const [output] = reply.outputs;
    expect(output?.shape).toEqual([fixture.length, 384]);
    const expected = fixture.flatMap(({ embedding }) => [...new Float32Array(Uint8Array.fromBase64(embedding).buffer)]);
    const differences = expected.map((value, at) => Math.abs(value - output!.data[at]!));
    expect(Math.max(...differences)).toBeLessThan(1e-5);
  },
  RUN_MS_MAX,
);

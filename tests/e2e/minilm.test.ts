// bundles/minilm, served: embeddings equal PyTorch's, whatever the batch, the padding and the company.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import fixture from "../../bundles/minilm/fixture.json";
import { EXAMPLES_DIRECTORY, tempRepository } from "../support/bundles.ts";
import { bytesTensor, type KserveClient, kserveClient } from "../support/kserve-client.ts";
import { serverCommand, startWorker, type TestWorker } from "../support/worker.ts";

const WIDTH = 384;
const START_MS_MAX = 120_000;
/** The bound that the exporter's program promises against PyTorch. */
const DIFFERENCE_MAX = 1e-5;

const repository = tempRepository({ minilm: { from: "minilm" } });
let worker: TestWorker;
let client: KserveClient;

beforeAll(async () => {
  worker = await startWorker({ repository: repository.directory });
  client = kserveClient(worker.address);
}, START_MS_MAX);

afterAll(async () => {
  client?.[Symbol.dispose]();
  await worker?.[Symbol.asyncDispose]();
  repository[Symbol.dispose]();
});

async function embed(texts: readonly string[]): Promise<Float32Array[]> {
  const reply = await client.call("modelInfer", {
    modelName: "minilm",
    inputs: [{ name: "texts", datatype: "BYTES", shape: [BigInt(texts.length)] }],
    rawInputContents: [bytesTensor(texts)],
  });
  const [output] = reply.outputs;
  expect(output).toMatchObject({ name: "embedding", datatype: "FP32", shape: [BigInt(texts.length), BigInt(WIDTH)] });
  const values = new Float32Array(reply.rawOutputContents[0]!.slice().buffer);
  return texts.map((_, row) => values.subarray(row * WIDTH, (row + 1) * WIDTH));
}

const expected = new Map(
  fixture.map(({ sentence, embedding }) => [sentence, new Float32Array(Uint8Array.fromBase64(embedding).buffer)]),
);

function expectEmbedding(sentence: string, actual: Float32Array): void {
  const difference = Math.max(...expected.get(sentence)!.map((value, at) => Math.abs(value - actual[at]!)));
  if (!(difference <= DIFFERENCE_MAX)) throw new Error(`"${sentence.slice(0, 40)}" differs by ${difference}`);
}

test("metadata shows the client's tensors", async () => {
  const { inputs, outputs } = await client.call("modelMetadata", { name: "minilm" });
  expect(inputs).toMatchObject([{ name: "texts", datatype: "BYTES", shape: [-1n] }]);
  expect(outputs).toMatchObject([{ name: "embedding", datatype: "FP32", shape: [-1n, 384n] }]);
});

test("each sentence alone has PyTorch's embedding", async () => {
  for (const { sentence } of fixture) expectEmbedding(sentence, (await embed([sentence]))[0]!);
});

test("all sentences in one request, padded to the longest, have the same embeddings", async () => {
  const sentences = fixture.map(({ sentence }) => sentence);
  (await embed(sentences)).forEach((embedding, row) => {
    expectEmbedding(sentences[row]!, embedding);
  });
});

test("more rows than the largest compiled size are split and rejoined in order", async () => {
  const sentences = Array.from({ length: 37 }, (_, row) => fixture[row % 12]!.sentence);
  (await embed(sentences)).forEach((embedding, row) => {
    expectEmbedding(sentences[row]!, embedding);
  });
});

test("requests that arrive together are answered each with its own", async () => {
  const sentences = Array.from({ length: 48 }, (_, at) => fixture[at % fixture.length]!.sentence);
  const embeddings = await Promise.all(sentences.map((sentence) => embed([sentence])));
  embeddings.forEach(([embedding], at) => {
    expectEmbedding(sentences[at]!, embedding!);
  });
});

test("text that is not UTF-8 is the client's mistake and says which", async () => {
  const request = client.call("modelInfer", {
    modelName: "minilm",
    inputs: [{ name: "texts", datatype: "BYTES", shape: [2n] }],
    rawInputContents: [bytesTensor(["fine", Uint8Array.of(0xff, 0xfe)])],
  });
  await expect(request).rejects.toMatchObject({ code: 3, details: expect.stringContaining("texts[1]") });
});

test(
  "the bundle's own tests pass",
  async () => {
    const run = Bun.spawn([...serverCommand(), "test", join(EXAMPLES_DIRECTORY, "minilm")], { stderr: "pipe" });
    const [output, code] = await Promise.all([new Response(run.stderr).text(), run.exited]);
    if (code !== 0) throw new Error(`xlaserver test ended with ${code}:\n${output}`);
  },
  START_MS_MAX,
);

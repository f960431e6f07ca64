// Every RPC of the contract against models on the fake device, through the bytes that a client sends and gets.

import { expect, test } from "bun:test";
import {
  create,
  type DescMessage,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import {
  GRPCInferenceService,
  type ModelInferRequestSchema,
  type ModelInferResponseSchema,
} from "../../proto/gen/grpc_service_pb.ts";
import { DataType } from "../../proto/gen/model_config_pb.ts";
import { type FakeModelRecipe, type FakeServing, fakeServing } from "../../tests/support/fake-serving.ts";
import { ServerError } from "../base/errors.ts";
import type { RequestRecord } from "../base/request-log.ts";
import { VERSION } from "../base/version.ts";
import type { Inference } from "../infer/inference.ts";
import type { Rpc } from "../net/rpc.ts";
import type { UnaryReply } from "../net/unary.ts";
import { Chunks } from "../tensor/byte-source.ts";
import { kserveMethods, streamingMethods } from "./kserve.ts";
import { startingMethods } from "./starting.ts";

const { method } = GRPCInferenceService;

interface Client extends AsyncDisposable {
  readonly serving: FakeServing;
  readonly requests: RequestRecord[];
  /** Sends the bytes of one call and gives back the decoded answer. */
  send<I extends DescMessage, O extends DescMessage>(
    rpc: { readonly name: string; readonly input: I; readonly output: O },
    request: MessageInitShape<I> | Uint8Array,
  ): Promise<MessageShape<O>>;
  infer(
    request: MessageInitShape<typeof ModelInferRequestSchema>,
  ): Promise<MessageShape<typeof ModelInferResponseSchema>>;
}

async function client(recipes: readonly FakeModelRecipe[], ready = () => true): Promise<Client> {
  const serving = await fakeServing(recipes);
  const requests: RequestRecord[] = [];
  const inference: Inference = { ...serving.inference, requestLog: (record: RequestRecord) => requests.push(record) };
  const methods = kserveMethods({ inference, device: serving.device.info, ready });
  const made: Client = {
    serving,
    requests,
    async send(rpc, request) {
      const bytes = request instanceof Uint8Array ? request : toBinary(rpc.input, create(rpc.input, request));
      const handler = methods.get(`/inference.GRPCInferenceService/${rpc.name}`)!;
      const context = { arrivalNs: serving.clock.nowNs(), deadlineNs: undefined, onCancel: () => {} };
      const answer = Promise.resolve(handler(Chunks.of(bytes), context as never));
      answer.catch(() => {});
      await serving.settle();
      const { chunks, release } = await answer;
      const reply = fromBinary(rpc.output, Buffer.concat(chunks));
      release?.();
      return reply;
    },
    infer: (request) => made.send(method.modelInfer, request),
    [Symbol.asyncDispose]: () => serving[Symbol.asyncDispose](),
  };
  return made;
}

async function refusal(answer: Promise<unknown>): Promise<string> {
  return answer.then(
    () => "accepted",
    (error) => (error instanceof ServerError ? `${error.code} ${error.message}` : String(error)),
  );
}

const MODEL: FakeModelRecipe = { name: "m", sizes: [1, 4] };
const x = (rows: number, width = 4) => ({ name: "x", datatype: "FP32", shape: [BigInt(rows), BigInt(width)] });
const floats = (...values: number[]) => new Uint8Array(Float32Array.from(values).buffer);

test("ModelInfer answers raw, with the request's id", async () => {
  await using one = await client([MODEL]);
  const raw = floats(1, 2, 3, 4, 5, 6, 7, 8);
  const request = { modelName: "m", id: "abc", inputs: [x(2)], rawInputContents: [raw] };
  const reply = await one.infer(request);
  expect(reply).toMatchObject({ modelName: "m", modelVersion: "", id: "abc" });
  expect(reply.outputs).toMatchObject([{ name: "y", datatype: "FP32", shape: [2n, 4n] }]);
  expect(reply.outputs[0]!.contents).toBeUndefined();
  expect(reply.rawOutputContents.map((bytes) => [...bytes])).toEqual([[...raw]]);
  const typed = { ...x(2), contents: { fp32Contents: [1, 2, 3, 4, 5, 6, 7, 8] } };
  expect((await one.infer({ modelName: "m", inputs: [typed] })).rawOutputContents).toEqual(reply.rawOutputContents);
});

test("a large reply is views of the slab until it is released, and the slab comes back", async () => {
  await using one = await client([{ name: "wide", sizes: [1], width: 4096 }]);
  const raw = floats(...Array.from({ length: 4096 }, (_, index) => index));
  for (let round = 0; round < 50; round++) {
    const reply = await one.infer({ modelName: "wide", inputs: [x(1, 4096)], rawInputContents: [raw] });
    expect(Buffer.compare(reply.rawOutputContents[0]!, raw)).toBe(0);
  }
});

test.each<[string, MessageInitShape<typeof ModelInferRequestSchema>, string]>([
  ["no model name", {}, "INVALID_ARGUMENT model_name is empty"],
  ["an unknown model", { modelName: "nobody" }, "NOT_FOUND unknown model 'nobody'"],
  ["a model name with a path", { modelName: "../m" }, "NOT_FOUND unknown model '../m'"],
  [
    "an unknown model before anything else",
    { modelName: "nobody", rawInputContents: [floats()] },
    "NOT_FOUND unknown model 'nobody'",
  ],
  [
    "a broken model",
    { modelName: "broken" },
    "UNAVAILABLE model 'broken' is not available: manifest.yaml: no such key",
  ],
  ["a loading model", { modelName: "slow" }, "UNAVAILABLE model 'slow' is not available: it is loading"],
  [
    "raw contents that are not one an input",
    { modelName: "m", rawInputContents: [floats()] },
    "INVALID_ARGUMENT model 'm': 1 raw_input_contents for 0 inputs, expected none or one an input",
  ],
])("ModelInfer refuses %s", async (_name, request, message) => {
  await using one = await client([MODEL]);
  one.serving.inference.registry.begin("slow");
  one.serving.inference.registry.refuse("broken", "manifest.yaml: no such key");
  expect(await refusal(one.infer(request))).toBe(message);
  expect(one.requests).toMatchObject([{ model: request.modelName ?? "", status: message.split(" ")[0] }]);
});

test("a request refused before it is queued counts as the model's failure", async () => {
  await using one = await client([MODEL]);
  await refusal(one.infer({ modelName: "m", id: "bad", inputs: [x(1), x(1)] }));
  await refusal(
    one.infer({ modelName: "m", inputs: [{ ...x(1), name: "z", contents: { fp32Contents: [1, 2, 3, 4] } }] }),
  );
  const { modelStats } = await one.send(method.modelStatistics, { name: "m" });
  expect(modelStats[0]!.inferenceStats!.fail!.count).toBe(2n);
  expect(one.requests).toMatchObject([
    { id: "bad", model: "m", status: "INVALID_ARGUMENT" },
    { id: "", model: "m", status: "INVALID_ARGUMENT" },
  ]);
});

test("malformed bytes are refused by every RPC, in words", async () => {
  await using one = await client([MODEL]);
  for (const rpc of GRPCInferenceService.methods) {
    if (rpc.methodKind !== "unary" || rpc.input.fields.length === 0) continue;
    const outcome = await refusal(one.send(rpc, Uint8Array.of(0x0a, 0xff)));
    expect(outcome).toMatch(/^(INVALID_ARGUMENT malformed protobuf: |UNIMPLEMENTED )/);
  }
  const huge = new Uint8Array(2 ** 20 + 1);
  expect(await refusal(one.send(method.modelReady, huge))).toStartWith("RESOURCE_EXHAUSTED ModelReadyRequest: ");
});

test("health is never an error", async () => {
  let ready = false;
  await using one = await client([MODEL], () => ready);
  one.serving.inference.registry.refuse("broken", "why");
  const modelReady = async (name: string) => (await one.send(method.modelReady, { name, version: "3" })).ready;
  expect((await one.send(method.serverLive, {})).live).toBe(true);
  expect((await one.send(method.serverReady, {})).ready).toBe(false);
  ready = true;
  expect((await one.send(method.serverReady, {})).ready).toBe(true);
  expect(await modelReady("m")).toBe(true);
  expect(await modelReady("broken")).toBe(false);
  expect(await modelReady("nobody")).toBe(false);
  expect(await modelReady("")).toBe(false);
});

test("a server that starts lives, is not ready, and asks for patience", () => {
  const { typeName } = GRPCInferenceService;
  const answer = (rpc: string) =>
    startingMethods().get(`/${typeName}/${rpc}`)!(Chunks.of(new Uint8Array(0)), {} as never);
  const bytes = (rpc: string) => [...(answer(rpc) as UnaryReply).chunks[0]!];
  expect(bytes("ServerLive")).toEqual([0x08, 1]);
  expect(bytes("ServerReady")).toEqual([]);
  expect(bytes("ModelReady")).toEqual([]);
  expect(() => answer("ModelInfer")).toThrow("the server is starting");
});

test("metadata names the server and what a model takes and returns", async () => {
  await using one = await client([MODEL]);
  const server = await one.send(method.serverMetadata, {});
  expect(server).toMatchObject({ name: "xlaserver", version: VERSION });
  expect(server.extensions).toEqual(["model_configuration", "parameters", "statistics"]);
  const model = await one.send(method.modelMetadata, { name: "m" });
  expect(model).toMatchObject({
    name: "m",
    versions: [],
    platform: "fake",
    inputs: [{ name: "x", datatype: "FP32", shape: [-1n, 4n] }],
    outputs: [{ name: "y", datatype: "FP32", shape: [-1n, 4n] }],
  });
  expect(await refusal(one.send(method.modelMetadata, { name: "nobody" }))).toBe("NOT_FOUND unknown model 'nobody'");
});

test("a coalesced model's configuration leaves the batch axis out", async () => {
  await using one = await client([MODEL, { name: "capped", sizes: [1, 8], limits: { maxBatchSize: 2 } }]);
  const { config } = await one.send(method.modelConfig, { name: "m" });
  expect(config).toMatchObject({
    name: "m",
    backend: "xla",
    maxBatchSize: 4,
    input: [{ name: "x", dataType: DataType.TYPE_FP32, dims: [4n] }],
    output: [{ name: "y", dataType: DataType.TYPE_FP32, dims: [4n] }],
    schedulingChoice: { case: "dynamicBatching", value: { preferredBatchSize: [1, 4] } },
  });
  expect((await one.send(method.modelConfig, { name: "capped" })).config!.maxBatchSize).toBe(1);
  expect(await refusal(one.send(method.modelConfig, { name: "" }))).toBe("NOT_FOUND unknown model ''");
});

test("a model that is never coalesced shows its whole shapes", async () => {
  await using one = await client([{ name: "whole", sizes: [0] }]);
  const { config } = await one.send(method.modelConfig, { name: "whole" });
  expect(config).toMatchObject({
    maxBatchSize: 0,
    input: [{ dims: [-1n, 4n] }],
    schedulingChoice: { case: undefined },
  });
});

test("statistics count requests, rows and executions", async () => {
  await using one = await client([MODEL, { name: "idle", sizes: [1] }]);
  for (const rows of [1, 3]) {
    const raw = floats(...new Array(rows * 4).fill(1));
    await one.infer({ modelName: "m", inputs: [x(rows)], rawInputContents: [raw] });
  }
  const { modelStats } = await one.send(method.modelStatistics, {});
  expect(modelStats.map(({ name }) => name)).toEqual(["idle", "m"]);
  expect(modelStats[1]).toMatchObject({
    version: "1",
    inferenceCount: 4n,
    executionCount: 2n,
    inferenceStats: { success: { count: 2n }, fail: { count: 0n }, queue: { count: 2n }, computeInfer: { count: 2n } },
    batchStats: [
      { batchSize: 1n, computeInfer: { count: 1n } },
      { batchSize: 4n, computeInfer: { count: 1n } },
    ],
  });
  expect(modelStats[1]!.inferenceStats!.computeInfer!.ns).toBeGreaterThan(0n);
  expect(await refusal(one.send(method.modelStatistics, { name: "x" }))).toBe("NOT_FOUND unknown model 'x'");
});

test("the repository shows every bundle, sorted, with its state and reason", async () => {
  await using one = await client([{ name: "z", sizes: [1] }, MODEL]);
  one.serving.inference.registry.begin("slow");
  one.serving.inference.registry.refuse("broken", "no manifest");
  const index = async (ready: boolean) =>
    (await one.send(method.repositoryIndex, { repositoryName: "any", ready })).models.map(
      ({ name, version, state, reason }) => [name, version, state, reason],
    );
  expect(await index(false)).toEqual([
    ["broken", "", "UNAVAILABLE", "no manifest"],
    ["m", "", "READY", ""],
    ["slow", "", "LOADING", ""],
    ["z", "", "READY", ""],
  ]);
  expect((await index(true)).map(([name]) => name)).toEqual(["m", "z"]);
});

test("a method of streams is refused by name as it opens, and no handler waits for its messages", () => {
  const streaming = streamingMethods();
  const path = "/inference.GRPCInferenceService/ModelStreamInfer";
  expect([...streaming.keys()]).toEqual([path]);
  expect(startingMethods().has(path)).toBe(false);
  expect(() => streaming.get(path)!.open({} as Rpc)).toThrow(
    new ServerError("UNIMPLEMENTED", "ModelStreamInfer is not served by this version of xlaserver"),
  );
});

test("what the contract has and this server has not is UNIMPLEMENTED by name", async () => {
  await using one = await client([]);
  const names = ["RepositoryModelLoad", "SystemSharedMemoryStatus", "CudaSharedMemoryRegister", "TraceSetting"];
  for (const rpc of GRPCInferenceService.methods.filter(({ name }) => names.includes(name))) {
    const outcome = await refusal(Promise.resolve().then(() => one.send(rpc, {})));
    expect(outcome).toBe(`UNIMPLEMENTED ${rpc.name} is not served by this version of xlaserver`);
  }
});

// grpc-js against the running server: every RPC, every dtype both ways, strings through hooks, deadlines, cancellation.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { GRPCInferenceService } from "../../proto/gen/grpc_service_pb.ts";
import { DataType, ModelInstanceGroup_Kind } from "../../proto/gen/model_config_pb.ts";
import { sizeOf, wireName } from "../../src/tensor/dtype.ts";
import { CLIENT_DTYPES, WIDE_ROW_BYTES, WIDTH } from "../support/client-bundles.ts";
import {
  type ClientServer,
  failure,
  int64,
  type Request,
  START_MS_MAX,
  startClientServer,
  strings,
  tensor,
  text,
} from "../support/client-server.ts";
import { randomBytes } from "../support/infer-messages.ts";
import { bytesTensor } from "../support/kserve-client.ts";
import { Rng } from "../support/rng.ts";

let server: ClientServer;
beforeAll(async () => {
  server = await startClientServer(["--request-log", "all"]);
}, START_MS_MAX);
afterAll(() => server?.[Symbol.asyncDispose]());

const infer = (request: Request, options = {}) => server.client.call("modelInfer", request, options);
const hex = (bytes: Uint8Array | undefined) => Buffer.from(bytes!).toString("hex");

// ---- every RPC

test("health", async () => {
  const { client } = server;
  expect((await client.call("serverLive", {})).live).toBe(true);
  expect((await client.call("serverReady", {})).ready).toBe(true);
  expect((await client.call("modelReady", { name: "simple", version: "9" })).ready).toBe(true);
  for (const name of ["broken", "nobody", "../simple", ""]) {
    expect((await client.call("modelReady", { name })).ready).toBe(false);
  }
});

test("metadata", async () => {
  expect(await server.client.call("serverMetadata", {})).toMatchObject({
    name: "xlaserver",
    version: expect.stringMatching(/^\d+\.\d+\.\d+/),
  });
  expect(await server.client.call("modelMetadata", { name: "strings" })).toMatchObject({
    name: "strings",
    versions: [],
    platform: "cpu",
    inputs: [{ name: "text", datatype: "BYTES", shape: [-1n] }],
    outputs: [
      { name: "reversed", datatype: "BYTES", shape: [-1n] },
      { name: "doubled", datatype: "INT32", shape: [-1n] },
    ],
  });
});

test("configuration", async () => {
  const { config } = await server.client.call("modelConfig", { name: "simple" });
  expect(config).toMatchObject({
    name: "simple",
    maxBatchSize: 8,
    schedulingChoice: { case: "dynamicBatching" },
    input: [
      { name: "INPUT0", dataType: DataType.TYPE_INT32, dims: [16n] },
      { name: "INPUT1", dataType: DataType.TYPE_INT32, dims: [16n] },
    ],
    output: [{ name: "OUTPUT0" }, { name: "OUTPUT1" }],
    instanceGroup: [{ kind: ModelInstanceGroup_Kind.CPU, count: 1 }],
  });
  // Nothing is left of [n] without its batch axis, and Triton has no empty dims.
  const whole = (await server.client.call("modelConfig", { name: "strings" })).config!;
  expect(whole).toMatchObject({ maxBatchSize: 0, schedulingChoice: { case: "dynamicBatching" } });
  expect(whole.input[0]).toMatchObject({ name: "text", dataType: DataType.TYPE_STRING, dims: [-1n] });
});

test("repository", async () => {
  const { models } = await server.client.call("repositoryIndex", {});
  const names = models.map(({ name }) => name);
  expect(names).toEqual(names.toSorted());
  expect(models.find(({ name }) => name === "broken")).toMatchObject({
    state: "UNAVAILABLE",
    version: "",
    reason: expect.stringContaining("executable_inputs"),
  });
  const ready = (await server.client.call("repositoryIndex", { ready: true })).models;
  expect(ready.map(({ name }) => name)).toEqual(names.filter((name) => name !== "broken"));
});

test("statistics", async () => {
  const read = async () => (await server.client.call("modelStatistics", { name: "simple" })).modelStats[0]!;
  const counts = ({ inferenceStats: stats }: Awaited<ReturnType<typeof read>>) =>
    [stats!.success, stats!.fail, stats!.queue, stats!.computeInfer].map((duration) => Number(duration!.count));
  const before = await read();
  const inputs = ["INPUT0", "INPUT1"].map((name) => tensor(name, "INT32", 3, 16));
  const raw = new Uint8Array(3 * 64);
  await infer({ modelName: "simple", inputs, rawInputContents: [raw, raw] });
  await failure(infer({ modelName: "simple" }));
  const after = await read();
  expect(after.inferenceCount - before.inferenceCount).toBe(3n);
  expect(after.executionCount - before.executionCount).toBe(1n);
  expect(counts(after).map((count, index) => count - counts(before)[index]!)).toEqual([1, 1, 1, 1]);
  expect(after.inferenceStats!.computeInfer!.ns).toBeGreaterThan(0n);
  expect(after.batchStats.map(({ batchSize }) => batchSize)).toContain(8n);
  const all = (await server.client.call("modelStatistics", {})).modelStats;
  expect(all.map(({ name }) => name)).toEqual(expect.arrayContaining(["simple", "strings", "wide"]));
  expect(all.length).toBe(CLIENT_DTYPES.length + 3);
});

test.each([
  "repositoryModelLoad",
  "repositoryModelUnload",
  "systemSharedMemoryStatus",
  "systemSharedMemoryRegister",
  "systemSharedMemoryUnregister",
  "cudaSharedMemoryStatus",
  "cudaSharedMemoryRegister",
  "cudaSharedMemoryUnregister",
  "traceSetting",
  "logSettings",
] as const)("%s is known and not served", async (rpc) => {
  const { name } = GRPCInferenceService.method[rpc];
  expect(await failure(server.client.call(rpc, {}))).toBe(
    `UNIMPLEMENTED: ${name} is not served by this version of xlaserver`,
  );
});

// ---- tensors

test.each(CLIENT_DTYPES)("%s, raw, any number of rows", async (dtype) => {
  const rng = new Rng(3);
  const modelName = `identity_${dtype}`;
  const datatype = wireName(dtype)!;
  for (const rows of [1, 2, 4, 9]) {
    let raw = randomBytes(rng, rows * WIDTH * sizeOf(dtype));
    if (dtype === "bool") raw = raw.map((byte) => byte & 1);
    const inputs = [tensor("x", datatype, rows, WIDTH)];
    const reply = await infer({ modelName, id: `rows-${rows}`, inputs, rawInputContents: [raw] });
    expect(reply).toMatchObject({ modelName, modelVersion: "", id: `rows-${rows}` });
    expect(reply.outputs).toMatchObject([tensor("y", datatype, rows, WIDTH)]);
    expect(reply.outputs[0]!.contents).toBeUndefined();
    expect(reply.rawOutputContents.map(hex)).toEqual([hex(raw)]);
  }
});

test.each([
  ["bool", { boolContents: [true, false, true] }, Uint8Array.of(1, 0, 1)],
  ["i8", { intContents: [-128, 0, 127] }, Int8Array.of(-128, 0, 127)],
  ["i16", { intContents: [-32768, 0, 32767] }, Int16Array.of(-32768, 0, 32767)],
  ["i32", { intContents: [-(2 ** 31), 0, 2 ** 31 - 1] }, Int32Array.of(-(2 ** 31), 0, 2 ** 31 - 1)],
  ["i64", { int64Contents: [-(2n ** 63n), 0n, 1n] }, BigInt64Array.of(-(2n ** 63n), 0n, 1n)],
  ["u8", { uintContents: [0, 1, 255] }, Uint8Array.of(0, 1, 255)],
  ["u16", { uintContents: [0, 1, 65535] }, Uint16Array.of(0, 1, 65535)],
  ["u32", { uintContents: [0, 1, 2 ** 32 - 1] }, Uint32Array.of(0, 1, 2 ** 32 - 1)],
  ["u64", { uint64Contents: [0n, 1n, 2n ** 64n - 1n] }, BigUint64Array.of(0n, 1n, 2n ** 64n - 1n)],
  ["f32", { fp32Contents: [0.5, -0, 1e30] }, Float32Array.of(0.5, -0, 1e30)],
  ["f64", { fp64Contents: [0.1, -0, 1e300] }, Float64Array.of(0.1, -0, 1e300)],
] as const)("%s, typed", async (dtype, lists, expected) => {
  const input = { ...tensor("x", wireName(dtype)!, 1, WIDTH), contents: lists as object };
  const reply = await infer({ modelName: `identity_${dtype}`, inputs: [input] });
  expect(reply.rawOutputContents.map(hex)).toEqual([hex(new Uint8Array(expected.buffer))]);
});

test("strings, raw and typed, through hooks; outputs as requested, in that order", async () => {
  const reply = await infer(strings("abc", "", "größe"));
  expect(reply.outputs.map(({ name }) => name)).toEqual(["reversed", "doubled"]);
  const reversed = ["abc", "", "größe"].map((word) => new TextEncoder().encode(word).toReversed());
  expect(reply.rawOutputContents.map(hex)).toEqual([
    hex(bytesTensor(reversed)),
    hex(new Uint8Array(Int32Array.of(6, 0, 14).buffer)),
  ]);

  const contents = { bytesContents: ["ab", ""].map((word) => new TextEncoder().encode(word)) };
  const chosen = await infer({
    modelName: "strings",
    inputs: [{ ...tensor("text", "BYTES", 2), contents }],
    outputs: [{ name: "doubled" }, { name: "reversed" }],
  });
  expect(chosen.outputs).toMatchObject([tensor("doubled", "INT32", 2), tensor("reversed", "BYTES", 2)]);
  expect(hex(chosen.rawOutputContents[1])).toBe(hex(bytesTensor(["ba", ""])));
});

test("200 MB in and out", async () => {
  const rows = 50;
  const raw = Buffer.alloc(rows * WIDE_ROW_BYTES);
  for (let at = 0; at < raw.length; at += 4096) raw.writeUInt32LE(at, at);
  const inputs = [tensor("x", "UINT8", rows, WIDE_ROW_BYTES)];
  const reply = await infer({ modelName: "wide", inputs, rawInputContents: [raw] });
  expect(Buffer.compare(reply.rawOutputContents[0]!, raw)).toBe(0);
}, 60_000);

// ---- time

test("a deadline, by grpc-timeout or by parameter, ends the request", async () => {
  const waiting = { ...strings("a"), parameters: { wait: int64(1) } };
  expect(await failure(infer(waiting, { deadline: Date.now() + 50 }))).toStartWith("DEADLINE_EXCEEDED");
  for (const [name, value] of [
    ["timeout", 50_000],
    ["xlaserver_timeout_ns", 50_000_000],
  ] as const) {
    const late = { ...waiting, id: name, parameters: { ...waiting.parameters, [name]: int64(value) } };
    expect(await failure(infer(late))).toStartWith("DEADLINE_EXCEEDED");
    const line = await server.worker.logged("request", ({ id }) => id === name);
    expect(line.status).toBe("DEADLINE_EXCEEDED");
  }
});

test("a timeout that is not positive is ignored, one that is no integer is refused", async () => {
  for (const ignored of [0, -1]) {
    expect((await infer({ ...strings("a"), parameters: { timeout: int64(ignored) } })).outputs.length).toBe(2);
  }
  expect(await failure(infer({ ...strings("a"), parameters: { timeout: text("50") } }))).toBe(
    "INVALID_ARGUMENT: parameter 'timeout': expected an integer, received 50",
  );
});

test("a cancelled call ends on the server too", async () => {
  const request = { ...strings("a"), id: "cancelled", parameters: { wait: int64(1) } };
  const cancel = server.cancellable(request);
  // Refused on the same connection, so the request before it has arrived.
  await failure(server.inferBytes(new Uint8Array(0)));
  expect(await cancel()).toStartWith("CANCELLED");
  const line = await server.worker.logged("request", ({ id }) => id === "cancelled");
  expect(line.status).toBe("CANCELLED");
});

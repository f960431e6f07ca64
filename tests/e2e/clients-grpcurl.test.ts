// grpcurl (grpc-go) against the running server: with nothing but the proto files, and without them by reflection.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { type ClientServer, START_MS_MAX, startClientServer } from "../support/client-server.ts";
import { findTool } from "../support/tools.ts";

const PROTO = join(import.meta.dir, "..", "..", "proto");
const grpcurl = findTool("grpcurl");
if ("missing" in grpcurl) console.log(`grpcurl: skipped: ${grpcurl.missing}`);
const testGrpcurl = test.skipIf("missing" in grpcurl);

let server: ClientServer;
beforeAll(async () => {
  if (!("missing" in grpcurl)) server = await startClientServer();
}, START_MS_MAX);
afterAll(() => server?.[Symbol.asyncDispose]());

/** Runs grpcurl against the server with JSON on standard input; what it printed. */
async function run(flags: readonly string[], verb: readonly string[], request: unknown = {}) {
  if ("missing" in grpcurl) throw new Error(grpcurl.missing);
  const child = Bun.spawn([grpcurl.path, "-plaintext", ...flags, server.worker.address, ...verb], {
    stdio: [new TextEncoder().encode(JSON.stringify(request)), "pipe", "pipe"],
  });
  const [output, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { ok: (await child.exited) === 0, output, errors };
}

/** Calls an RPC by the proto files; its reply, or what grpcurl said when it failed. */
async function call(rpc: string, request: unknown = {}, flags: readonly string[] = []) {
  const proto = ["-import-path", PROTO, "-proto", "grpc_service.proto", "-max-msg-sz", "536870912"];
  const { ok, output, errors } = await run(
    [...proto, ...flags, "-d", "@"],
    [`inference.GRPCInferenceService/${rpc}`],
    request,
  );
  return ok ? { reply: JSON.parse(output) } : { errors };
}

/** Calls an RPC by what reflection says of it. */
const reflected = (rpc: string, request: unknown, flags: readonly string[] = []) =>
  run([...flags, "-d", "@"], [rpc], request);

testGrpcurl("every question about the server and its models", async () => {
  expect((await call("ServerLive")).reply).toEqual({ live: true });
  expect((await call("ServerReady")).reply).toEqual({ ready: true });
  expect((await call("ModelReady", { name: "simple" })).reply).toEqual({ ready: true });
  expect((await call("ServerMetadata")).reply).toMatchObject({ name: "xlaserver" });
  expect((await call("ModelMetadata", { name: "simple" })).reply.inputs[0]).toEqual({
    name: "INPUT0",
    datatype: "INT32",
    shape: ["-1", "16"],
  });
  expect((await call("ModelConfig", { name: "simple" })).reply.config.maxBatchSize).toBe(8);
  const { models } = (await call("RepositoryIndex", { ready: true })).reply;
  expect(models).toContainEqual({ name: "simple", state: "READY" });
  expect((await call("ModelStatistics", { name: "simple" })).reply.modelStats[0].name).toBe("simple");
});

testGrpcurl("typed contents in JSON, raw bytes in base64", async () => {
  const input = { name: "x", datatype: "INT16", shape: [1, 3] };
  const expected = Buffer.from(Int16Array.of(-1, 0, 300).buffer).toString("base64");
  for (const request of [
    { inputs: [{ ...input, contents: { int_contents: [-1, 0, 300] } }] },
    { inputs: [input], raw_input_contents: [expected] },
  ]) {
    const { reply } = await call("ModelInfer", { model_name: "identity_i16", id: "g", ...request });
    expect(reply).toEqual({
      modelName: "identity_i16",
      id: "g",
      outputs: [{ name: "y", datatype: "INT16", shape: ["1", "3"] }],
      rawOutputContents: [expected],
    });
  }
});

testGrpcurl(
  "8 MB in and out",
  async () => {
    const rows = 2;
    const raw = Buffer.alloc(rows * 4 * 2 ** 20, "xlaserver").toString("base64");
    const input = { name: "x", datatype: "UINT8", shape: [rows, 4 * 2 ** 20] };
    const { reply } = await call("ModelInfer", { model_name: "wide", inputs: [input], raw_input_contents: [raw] });
    expect(reply.rawOutputContents[0] === raw).toBe(true);
  },
  60_000,
);

testGrpcurl("refusals have their code and words", async () => {
  expect((await call("ModelInfer", { model_name: "nobody" })).errors).toMatch(/Code: NotFound\s+Message: .*'nobody'/);
  expect((await call("ModelInfer", { model_name: "broken" })).errors).toMatch(
    /Code: Unavailable\s+Message: .*'broken'/,
  );
  expect((await call("TraceSetting")).errors).toMatch(/Code: Unimplemented/);
  const waiting = {
    model_name: "strings",
    parameters: { wait: { int64_param: 1 } },
    inputs: [{ name: "text", datatype: "BYTES", shape: [1], contents: { bytes_contents: ["YQ=="] } }],
  };
  expect((await call("ModelInfer", waiting, ["-max-time", "0.3"])).errors).toMatch(
    /DeadlineExceeded|deadline exceeded/,
  );
});

testGrpcurl("reflection: what there is, what it looks like, and a call without proto files", async () => {
  const list = await run([], ["list"]);
  expect(list.output.trim().split("\n")).toEqual([
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
    "inference.GRPCInferenceService",
  ]);
  expect((await run([], ["list", "grpc.health.v1.Health"])).output.trim().split("\n")).toEqual([
    "grpc.health.v1.Health.Check",
    "grpc.health.v1.Health.Watch",
  ]);
  // Every service, with all that it refers to.
  const all = await run([], ["describe"]);
  expect(all.errors).toBe("");
  expect(all.output).toContain("rpc ModelInfer ( .inference.ModelInferRequest ) returns");
  expect((await run([], ["describe", "inference.ModelConfig"])).output).toContain("message ModelConfig {");
  expect((await run([], ["describe", "inference.DataType"])).output).toContain("TYPE_BF16 = 14;");
  expect((await run([], ["describe", "inference.Nobody"])).errors).toMatch(/not found/i);

  const input = { name: "x", datatype: "INT16", shape: [1, 3], contents: { int_contents: [1, 2, 3] } };
  const inferred = await reflected("inference.GRPCInferenceService/ModelInfer", {
    model_name: "identity_i16",
    inputs: [input],
  });
  expect(JSON.parse(inferred.output).rawOutputContents).toEqual([
    Buffer.from(Int16Array.of(1, 2, 3).buffer).toString("base64"),
  ]);
});

testGrpcurl("health by reflection: Check, and a Watch until the client's deadline", async () => {
  const check = (service: string) => reflected("grpc.health.v1.Health/Check", { service });
  for (const service of ["", "inference.GRPCInferenceService", "simple"]) {
    expect(JSON.parse((await check(service)).output)).toEqual({ status: "SERVING" });
  }
  expect(JSON.parse((await check("broken")).output)).toEqual({ status: "NOT_SERVING" });
  expect((await check("nobody")).errors).toMatch(/Code: NotFound\s+Message: .*'nobody'/);

  const watch = (service: string) => reflected("grpc.health.v1.Health/Watch", { service }, ["-max-time", "0.5"]);
  for (const [service, status] of [
    ["simple", "SERVING"],
    ["nobody", "SERVICE_UNKNOWN"],
  ] as const) {
    const { output, errors } = await watch(service);
    expect(JSON.parse(output)).toEqual({ status });
    expect(errors).toContain("DeadlineExceeded");
  }
});

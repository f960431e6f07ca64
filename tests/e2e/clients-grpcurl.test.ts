// grpcurl (grpc-go) against the running server, with nothing but the proto files.

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

/** Calls an RPC with a JSON request on standard input; what it printed, parsed if it went well. */
async function call(rpc: string, request: unknown = {}, flags: readonly string[] = []) {
  if ("missing" in grpcurl) throw new Error(grpcurl.missing);
  const proto = ["-plaintext", "-import-path", PROTO, "-proto", "grpc_service.proto", "-max-msg-sz", "536870912"];
  const target = [server.worker.address, `inference.GRPCInferenceService/${rpc}`];
  const child = Bun.spawn([grpcurl.path, ...proto, ...flags, "-d", "@", ...target], {
    stdio: [new TextEncoder().encode(JSON.stringify(request)), "pipe", "pipe"],
  });
  const [output, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return (await child.exited) === 0 ? { reply: JSON.parse(output) } : { errors };
}

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

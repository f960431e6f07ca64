// What an operator sees of a server at work: metrics that count what was done, one log line a request with its figures,
// and nothing left of clients that cancel, vanish, or only come and go.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { connect as connectHttp2 } from "node:http2";
import { create, toBinary } from "@bufbuild/protobuf";
import { InterceptingCall, type InterceptorOptions, type NextCall, status } from "@grpc/grpc-js";
import { ModelInferRequestSchema } from "../../proto/gen/grpc_service_pb.ts";
import { type TempRepository, tempRepository } from "../support/bundles.ts";
import { failure, type Request, tensor, text } from "../support/client-server.ts";
import { gateLeft, gateReached, until, WAITS_AT_RUN } from "../support/gates.ts";
import { type KserveClient, kserveClient } from "../support/kserve-client.ts";
import { type LogLine, startWorker, type TestWorker } from "../support/worker.ts";

const START_MS_MAX = 180_000;

let repository: TempRepository;
let worker: TestWorker;
let client: KserveClient;

beforeAll(async () => {
  repository = tempRepository({ simple: { from: "simple" }, gated: WAITS_AT_RUN });
  const environment = { XLASERVER_HOOKS_THREADS: "8" };
  worker = await startWorker({ repository: repository.directory, flags: ["--request-log", "all"], environment });
  client = kserveClient(worker.address);
}, START_MS_MAX);

afterAll(async () => {
  client?.[Symbol.dispose]();
  await worker?.[Symbol.asyncDispose]();
  repository?.[Symbol.dispose]();
});

const simple = (rows: number, id = ""): Request => ({
  modelName: "simple",
  id,
  inputs: [tensor("INPUT0", "INT32", rows, 16), tensor("INPUT1", "INT32", rows, 16)],
  rawInputContents: [new Uint8Array(rows * 64), new Uint8Array(rows * 64)],
});

const gated = (gate: string): Request => ({
  modelName: "gated",
  id: gate,
  parameters: { gate: text(gate) },
  inputs: [tensor("x", "FP32", 1, 3)],
  rawInputContents: [new Uint8Array(12)],
});

/** The samples of /metrics: `name{labels}` to value, without the label that names the worker. */
async function metrics(): Promise<Map<string, number>> {
  const page = await (await fetch(`http://127.0.0.1:${worker.metricsPort}/metrics`)).text();
  const samples = page.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(
    samples.map((line) => {
      const at = line.lastIndexOf(" ");
      return [
        line
          .slice(0, at)
          .replace(/,?worker="[^"]*"/, "")
          .replace("{}", ""),
        Number(line.slice(at + 1)),
      ] as const;
    }),
  );
}

test("metrics count what was asked for and what was executed", async () => {
  const before = await metrics();
  for (const rows of [1, 8, 16]) await client.call("modelInfer", simple(rows));
  expect(await failure(client.call("modelInfer", { ...simple(1), inputs: [], rawInputContents: [] }))).toStartWith(
    "INVALID_ARGUMENT",
  );
  expect(await failure(client.call("modelInfer", { modelName: "nobody" }))).toStartWith("NOT_FOUND");
  const after = await metrics();
  const grown = (name: string) => after.get(name)! - (before.get(name) ?? 0);
  expect(grown('worker_requests_served_total{model="simple"}')).toBe(3);
  expect(grown('worker_rows_served_total{model="simple"}')).toBe(25);
  // The largest compiled batch has 8 rows.
  expect(grown('worker_dispatch_total{model="simple"}')).toBe(4);
  expect(grown('worker_requests_total{model="simple",status="OK"}')).toBe(3);
  expect(grown('worker_requests_total{model="simple",status="INVALID_ARGUMENT"}')).toBe(1);
  expect(grown('worker_request_latency_seconds_count{model="simple"}')).toBeGreaterThanOrEqual(3);
  expect(grown('worker_compute_seconds_total{model="simple"}')).toBeGreaterThan(0);
  expect(after.get('worker_queue_depth{model="simple"}')).toBe(0);
  expect(after.get('worker_model_max_batch_size{model="simple"}')).toBe(8);
  expect(after.get("worker_models_loaded")).toBe(2);
  expect(after.get("worker_inflight_requests")).toBe(0);
  expect(after.get("worker_inflight_bytes")).toBe(0);
});

test("the request log has a line for each request, with its figures", async () => {
  await client.call("modelInfer", simple(3, "three"));
  await failure(client.call("modelInfer", { ...simple(1, "empty"), inputs: [], rawInputContents: [] }));
  await failure(client.call("modelInfer", { modelName: "nobody", id: "who" }));
  const line = (id: string) => worker.logged("request", (candidate) => candidate.id === id);
  const count = expect.any(Number);
  const figures = { queueUs: count, computeUs: count, totalUs: count };
  expect(await line("three")).toMatchObject({
    level: "info",
    model: "simple",
    status: "OK",
    rows: 3,
    batch: 8,
    ...figures,
  });
  const empty = { level: "warn", model: "simple", status: "INVALID_ARGUMENT", totalUs: count };
  expect(await line("empty")).toMatchObject({ ...empty, error: expect.stringContaining("INPUT0") });
  expect(await line("who")).toMatchObject({ level: "warn", model: "nobody", status: "NOT_FOUND" });
});

test.each([
  ["errors", ["bad"]],
  ["off", []],
] as const)(
  "the request log '%s'",
  async (which, expected) => {
    const flags = ["--request-log", which];
    await using other = await startWorker({ repository: repository.directory, flags });
    using channel = kserveClient(other.address);
    await channel.call("modelInfer", simple(1, "good"));
    await failure(channel.call("modelInfer", { ...simple(1, "bad"), inputs: [] }));
    other.kill("SIGTERM");
    await other.exited;
    const requests = other.log.filter(({ event }: LogLine) => event === "request").map(({ id }) => id);
    expect(requests).toEqual([...expected]);
  },
  START_MS_MAX,
);

/** Nothing is in flight any more, and the server serves. */
async function expectAtRest(): Promise<void> {
  await until(async () => (await metrics()).get("worker_inflight_requests") === 0);
  expect((await metrics()).get("worker_inflight_bytes")).toBe(0);
  expect((await client.call("modelInfer", simple(2))).outputs.length).toBe(2);
}

test("a cancelled request ends: its hook hears of it, its line says so, nothing stays in flight", async () => {
  const cancelled = Promise.withResolvers<void>();
  const interceptor = (options: InterceptorOptions, next: NextCall) => {
    const call = new InterceptingCall(next(options));
    void cancelled.promise.then(() => call.cancelWithStatus(status.CANCELLED, "no longer wanted"));
    return call;
  };
  const outcome = failure(client.call("modelInfer", gated("cancelled"), { interceptors: [interceptor] }));
  await gateReached(repository, "gated", "cancelled");
  cancelled.resolve();
  expect(await outcome).toBe("CANCELLED: no longer wanted");
  await gateLeft(repository, "gated", "cancelled");
  expect((await worker.logged("request", ({ id }) => id === "cancelled")).status).toBe("CANCELLED");
  await expectAtRest();
});

/** Sends a request over a connection of its own, which the function returned cuts without a goodbye. */
function sendAndVanish(request: Request): () => void {
  const session = connectHttp2(`http://${worker.address}`);
  const stream = session.request({
    ":method": "POST",
    ":path": "/inference.GRPCInferenceService/ModelInfer",
    "content-type": "application/grpc",
    te: "trailers",
  });
  for (const emitter of [session, stream]) emitter.on("error", () => {});
  const message = toBinary(ModelInferRequestSchema, create(ModelInferRequestSchema, request));
  const frame = Buffer.alloc(5 + message.length);
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, 5);
  stream.end(frame);
  return () => session.destroy();
}

test("clients that vanish in the middle of a request are forgotten", async () => {
  const gates = Array.from({ length: 6 }, (_, index) => `vanished-${index}`);
  const cuts = gates.map((gate) => sendAndVanish(gated(gate)));
  await Promise.all(gates.map((gate) => gateReached(repository, "gated", gate)));
  for (const cut of cuts) cut();
  await Promise.all(gates.map((gate) => gateLeft(repository, "gated", gate)));
  for (const gate of gates) {
    expect((await worker.logged("request", ({ id }) => id === gate)).status).toBe("CANCELLED");
  }
  await expectAtRest();
});

const descriptors = () => readdirSync(`/proc/${worker.pid}/fd`).length;

test("200 connections, opened and dropped at every stage, leave no descriptor behind", async () => {
  await expectAtRest();
  const baseline = descriptors();
  const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  const openings = [
    "",
    "GET / HTTP/1.1\r\n\r\n",
    preface.slice(0, 10),
    preface,
    `${preface}\0\0\0\x04\0\0\0\0\0`,
    "\0\xff\0",
  ];
  const sockets = await Promise.all(
    Array.from({ length: 200 }, async (_, index) => {
      const socket = await Bun.connect({
        hostname: "127.0.0.1",
        port: worker.grpcPort,
        socket: { data() {}, error() {}, close() {} },
      });
      socket.write(openings[index % openings.length]!);
      return socket;
    }),
  );
  await until(() => descriptors() > baseline + 50);
  for (const [index, socket] of sockets.entries()) index % 2 ? socket.end() : socket.terminate();
  await until(() => descriptors() <= baseline);
  await expectAtRest();
});

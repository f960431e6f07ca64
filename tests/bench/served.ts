// Throughput of the whole server over gRPC, with real execution of every batch on the CPU plugin: x + x of 64 bytes and of
// 602 KB, beside a bare node:http2 server on Bun that answers a constant, or echoes.
//
// The server is pinned to one core and h2load to another; runs alternate, figures are medians, and the ratios count. The
// server's own counters say that every answer was OK. Run it: npm run bench -- served

import { join } from "node:path";
import { create, toBinary } from "@bufbuild/protobuf";
import { stringify } from "yaml";
import { ModelInferRequestSchema } from "../../proto/gen/grpc_service_pb.ts";
import { type BundleRecipe, tempRepository } from "../support/bundles.ts";
import { median } from "../support/median.ts";
import { startWorker } from "../support/worker.ts";
import { H2load, type Outcome } from "./wire/h2load.ts";

const ROUNDS = Number(process.env.XLASERVER_BENCH_ROUNDS ?? 5);
const SERVER_CORE = 0;
const LOAD_CORE = 1;
const INFER = "/inference.GRPCInferenceService/ModelInfer";

/** A model that adds its input to itself: f32 [n, ...dims]. */
function doubling(dims: readonly number[], sizes: readonly number[]): BundleRecipe {
  const letters = "chw".slice(0, dims.length);
  const tensor = { dtype: "f32", shape: `n${letters}`, dims: Object.fromEntries(dims.map((d, i) => [letters[i], d])) };
  const modules = sizes.map((size) => {
    const type = `tensor<${[size, ...dims].join("x")}xf32>`;
    const body = `%y = stablehlo.add %x, %x : ${type}\n    return %y : ${type}`;
    return [
      `model.b${size}.mlir`,
      `module {\n  func.func public @main(%x: ${type}) -> ${type} {\n    ${body}\n  }\n}\n`,
    ];
  });
  const manifest = stringify({
    format_version: "3.0",
    executable_inputs: [{ name: "x", ...tensor }],
    executable_outputs: [{ name: "y", ...tensor }],
    batching: { compiled_batch_sizes: sizes },
  });
  return { files: { "manifest.yaml": manifest, ...Object.fromEntries(modules) } };
}

function request(modelName: string, shape: readonly number[]): Uint8Array {
  const values = new Float32Array(shape.reduce((product, extent) => product * extent, 1)).fill(1.5);
  const inputs = [{ name: "x", datatype: "FP32", shape: shape.map(BigInt) }];
  const rawInputContents = [new Uint8Array(values.buffer)];
  return toBinary(ModelInferRequestSchema, create(ModelInferRequestSchema, { modelName, inputs, rawInputContents }));
}

const SMALL = request("small", [1, 16]);
const IMAGE = request("image", [1, 3, 224, 224]);
const CASES = [
  { name: "64 B, 1 x 1", message: SMALL, baseline: "Constant", connections: 1, streams: 1, requests: 5_000 },
  { name: "64 B, 4 x 16", message: SMALL, baseline: "Constant", connections: 4, streams: 16, requests: 100_000 },
  { name: "64 B, 8 x 32", message: SMALL, baseline: "Constant", connections: 8, streams: 32, requests: 100_000 },
  { name: "602 KB, 2 x 4", message: IMAGE, baseline: "Echo", connections: 2, streams: 4, requests: 1_000 },
] as const;

async function answeredOk(metricsPort: number): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
  const counts = [...text.matchAll(/^worker_requests_total\{.*status="OK".*\} (\d+)$/gm)];
  return counts.reduce((sum, [, count]) => sum + Number(count), 0);
}

async function startBaseline(): Promise<{ port: number } & Disposable> {
  const file = join(import.meta.dir, "wire", "node-http2.ts");
  const child = Bun.spawn(["taskset", "-c", String(SERVER_CORE), process.execPath, file], { stdout: "pipe" });
  const { value } = await child.stdout.getReader().read();
  return { port: Number(new TextDecoder().decode(value).trim()), [Symbol.dispose]: () => child.kill() };
}

const missing = ["h2load", "taskset"].filter((tool) => Bun.which(tool) === null);
if (missing.length > 0) {
  console.log(`skipped: ${missing.join(" and ")} not on PATH (Debian: nghttp2-client, util-linux)`);
  process.exit(0);
}
using repository = tempRepository({ small: doubling([16], [1, 8, 64]), image: doubling([3, 224, 224], [1, 4]) });
await using worker = await startWorker({ repository: repository.directory });
// All threads of the server, those that the plugin has started included.
Bun.spawnSync(["taskset", "-a", "-p", "-c", String(SERVER_CORE), String(worker.pid)]);
using baseline = await startBaseline();
using h2load = new H2load(LOAD_CORE);
const columns = (...cells: string[]) => console.log(cells.map((cell, i) => cell.padStart(i === 0 ? -1 : 11)).join(" "));
columns("".padEnd(16), "served", "mean", "node:http2", "mean", "ratio");
for (const { name, message, baseline: path, connections, streams, requests } of CASES) {
  const load = { connections, streams, message, requests };
  const served: Outcome[] = [];
  const bare: Outcome[] = [];
  const before = await answeredOk(worker.metricsPort);
  for (let round = 0; round < ROUNDS; round++) {
    served.push(await h2load.run(worker.grpcPort, INFER, load));
    bare.push(await h2load.run(baseline.port, `/bench/${path}`, load));
  }
  const ok = (await answeredOk(worker.metricsPort)) - before;
  if (ok !== ROUNDS * requests) throw new Error(`${name}: ${ok} of ${ROUNDS * requests} requests were answered OK`);
  const figures = (of: Outcome[]) => [
    `${median(of.map(({ perSecond }) => perSecond)).toFixed(0)}/s`,
    `${median(of.map(({ meanUs }) => meanUs)).toFixed(0)} us`,
  ];
  const ratio = median(served.map(({ perSecond }, round) => perSecond / bare[round]!.perSecond));
  columns(name.padEnd(16), ...figures(served), ...figures(bare), ratio.toFixed(2));
}

// Bundles with every kind of damage beside sound ones: each is UNAVAILABLE with a reason that says what is wrong and what
// was expected, in RepositoryIndex and to whoever infers; the server runs on and serves the sound ones. --strict exits 1.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type BundleRecipe, EXAMPLES_DIRECTORY, type TempRepository, tempRepository } from "../support/bundles.ts";
import { failure, tensor } from "../support/client-server.ts";
import { type KserveClient, kserveClient } from "../support/kserve-client.ts";
import { type FileTensor, type SafetensorsOptions, safetensorsFile } from "../support/safetensors.ts";
import { spawnServer, startWorker, type TestWorker } from "../support/worker.ts";

const START_MS_MAX = 180_000;

// ---- the sound bundle that the damaged ones were: y = x * weight^T + bias

const MANIFEST = {
  format_version: "3.0",
  weights: { file: "weights.safetensors", arguments: ["weight", "bias"] },
  executable_inputs: [{ name: "x", dtype: "f32", shape: "nd", dims: { d: 3 } }],
  executable_outputs: [{ name: "y", dtype: "f32", shape: "nk", dims: { k: 2 } }],
  batching: { compiled_batch_sizes: [1] },
};

const WEIGHT: FileTensor = { dtype: "F32", shape: [2, 3], data: Float32Array.of(1, 2, 3, 4, 5, 6) };
const BIAS: FileTensor = { dtype: "F32", shape: [2], data: Float32Array.of(0.5, 0.25) };

interface ModuleTypes {
  x: string;
  weight: string;
  bias: string;
  y: string;
}

function moduleText(types: Partial<ModuleTypes> = {}): string {
  const { x, weight, bias, y } = { x: "1x3xf32", weight: "2x3xf32", bias: "2xf32", y: "1x2xf32", ...types };
  return `module {
  func.func public @main(%x: tensor<${x}>, %weight: tensor<${weight}>, %bias: tensor<${bias}>) -> tensor<${y}> {
    %product = stablehlo.dot_general %x, %weight, contracting_dims = [1] x [1]
        : (tensor<${x}>, tensor<${weight}>) -> tensor<${y}>
    %biases = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<${bias}>) -> tensor<${y}>
    %y = stablehlo.add %product, %biases : tensor<${y}>
    return %y : tensor<${y}>
  }
}
`;
}

interface Changes {
  readonly manifest?: Record<string, unknown>;
  readonly files?: BundleRecipe["files"];
}

function dense({ manifest = {}, files = {} }: Changes = {}): BundleRecipe {
  return {
    files: {
      "manifest.yaml": JSON.stringify({ ...MANIFEST, ...manifest }),
      "model.b1.mlir": moduleText(),
      "weights.safetensors": safetensorsFile({ weight: WEIGHT, bias: BIAS }),
      ...files,
    },
  };
}

const withModule = (content: string | Uint8Array) => dense({ files: { "model.b1.mlir": content } });
const withWeights = (content: string | Uint8Array | null) => dense({ files: { "weights.safetensors": content } });
const withArguments = (...names: string[]) =>
  dense({ manifest: { weights: { ...MANIFEST.weights, arguments: names } } });
const withHooks = (text: string, timeLimitMs = 10_000) =>
  dense({ manifest: { hooks: { time_limit_ms: timeLimitMs } }, files: { "model.ts": text } });

/** The weights with one key of one tensor's header entry replaced. */
function lying(tensor: "weight" | "bias", entry: Record<string, unknown>): BundleRecipe {
  const tamper: SafetensorsOptions["tamper"] = (header) => ({
    ...header,
    [tensor]: { ...(header[tensor] as object), ...entry },
  });
  return withWeights(safetensorsFile({ weight: WEIGHT, bias: BIAS }, { tamper }));
}

const WHOLE_WEIGHTS = safetensorsFile({ weight: WEIGHT, bias: BIAS });
const REGISTER = 'import { registerModel } from "xlaserver";\n';
const BYTECODE = readFileSync(join(EXAMPLES_DIRECTORY, "minilm", "model.v0.b1.mlir"));

/** Attributes nested so deep that the compiler's parser leaves its stack. */
const CRASHES_THE_COMPILER = `module attributes {deep = ${"[".repeat(2_000_000)}${"]".repeat(2_000_000)}} {}`;

/** A bundle's name: how it is damaged, and what its reason must say. */
const DAMAGED: Readonly<Record<string, readonly [BundleRecipe, RegExp]>> = {
  weights_missing: [withWeights(null), /weights\.safetensors: .*no such file/],
  weights_truncated: [withWeights(WHOLE_WEIGHTS.slice(0, -4)), /weights\.safetensors.*bias.*truncated/],
  weights_cut_in_header: [withWeights(WHOLE_WEIGHTS.slice(0, 40)), /weights\.safetensors.*header/],
  weights_cut_to_nothing: [withWeights(""), /weights\.safetensors.*8 bytes/],
  weights_no_header: [withWeights(new Uint8Array(100).fill(0xff)), /weights\.safetensors.*header/],
  weights_not_fetched: [
    withWeights("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 100\n"),
    /weights\.safetensors.*LFS/i,
  ],
  weights_a_directory: [withWeights(null), /weights\.safetensors.*directory/],
  weights_a_pipe: [withWeights(null), /weights\.safetensors.*pipe/],
  weights_beyond_the_end: [lying("bias", { data_offsets: [24, 1024] }), /bias.*data_offsets.*1024/],
  weights_overlap: [lying("bias", { data_offsets: [16, 24] }), /bias.*data_offsets.*overlap/],
  weights_gap: [
    withWeights(safetensorsFile({ weight: WEIGHT, gap: BIAS, bias: BIAS }, { tamper: ({ gap, ...rest }) => rest })),
    /bias.*data_offsets.*gap/,
  ],
  weights_shape_lies: [lying("weight", { shape: [2, 300] }), /weight.*2400 bytes.*24 bytes/],
  weights_shape_overflows: [lying("weight", { shape: [2 ** 40, 2 ** 40] }), /weight.*shape.*2\^53/],
  weights_dtype_lies: [lying("weight", { dtype: "F64" }), /weight.*48 bytes, as F64.*24 bytes/],
  weights_dtype_swapped: [lying("weight", { dtype: "I32" }), /weight 'weight'.*i32\[2,3\].*f32\[2,3\]/],
  weights_dtype_unknown: [lying("weight", { dtype: "Q4" }), /weight.*Q4/],
  weights_of_another_shape: [
    withWeights(safetensorsFile({ weight: { ...WEIGHT, shape: [3, 2] }, bias: BIAS })),
    /weight 'weight'.*f32\[3,2\].*f32\[2,3\]/,
  ],
  weights_of_another_model: [withWeights(safetensorsFile({ kernel: WEIGHT })), /weights\.arguments\[0\].*'weight'/],
  weights_too_few: [withArguments("weight"), /2 parameters.*input 'x'.*weight 'weight'.*3: /],
  weights_too_many: [withArguments("weight", "bias", "bias"), /4 parameters.*3: /],
  module_missing: [dense({ files: { "model.b1.mlir": null } }), /model\.mlir.*model\.b1\.mlir.*none of them/],
  module_a_dangling_link: [dense({ files: { "model.b1.mlir": null } }), /model\.b1\.mlir/],
  module_broken_text: [withModule("module {\n  this is no MLIR\n}\n"), /model\.b1\.mlir.*2:3.*'this'/s],
  module_empty: [withModule(""), /model\.b1\.mlir.*empty/],
  module_garbage: [withModule(Uint8Array.of(0x89, 0, 1, 2, 0xff, 0xfe)), /model\.b1\.mlir.*neither/],
  module_bytecode_truncated: [withModule(BYTECODE.subarray(0, 3000)), /model\.b1\.mlir.*remain/],
  module_bytecode_garbled: [
    withModule(BYTECODE.map((byte, index) => (index < 200 ? byte : byte ^ 0x55))),
    /model\.b1\.mlir/,
  ],
  module_without_main: [withModule("module { func.func @other() { return } }"), /model\.b1\.mlir.*`main`/],
  module_crashes_compiler: [withModule(CRASHES_THE_COMPILER), /model\.b1\.mlir.*compiler process died.*SIG/],
  module_undeclared: [
    dense({ manifest: { batching: { compiled_batch_sizes: [1, 4] } } }),
    /model\.b4\.mlir.*batch size 4.*no such file/,
  ],
  module_of_other_rows: [
    dense({
      manifest: { batching: { compiled_batch_sizes: [4] } },
      files: { "model.b1.mlir": null, "model.b4.mlir": moduleText() },
    }),
    /model\.b4\.mlir.*input 'x'.*f32\[4,3\] \(4 rows along axis 0\).*f32\[1,3\]/s,
  ],
  signature_inputs: [
    dense({
      manifest: { executable_inputs: [...MANIFEST.executable_inputs, { name: "z", dtype: "f32", shape: "n" }] },
    }),
    /4 parameters.*input 'z'.*3: f32\[1,3\]/,
  ],
  signature_outputs: [
    dense({
      manifest: { executable_outputs: [...MANIFEST.executable_outputs, { name: "z", dtype: "f32", shape: "n" }] },
    }),
    /2 results.*output 'z'.*1: f32\[1,2\]/,
  ],
  signature_input_shape: [
    withModule(moduleText({ x: "1x5xf32", weight: "2x5xf32" })),
    /input 'x'.*f32\[1,3\].*f32\[1,5\]/s,
  ],
  signature_weight_shape: [
    withModule(moduleText({ x: "1x5xf32", weight: "2x5xf32" })),
    /weight 'weight'.*f32\[2,3\].*f32\[2,5\]/s,
  ],
  signature_input_dtype: [withModule(moduleText({ x: "1x3xf64" })), /input 'x'.*f32\[1,3\].*f64\[1,3\]/],
  signature_output_shape: [
    dense({ manifest: { executable_outputs: [{ ...MANIFEST.executable_outputs[0], dims: { k: 7 } }] } }),
    /result 0 \(output 'y'\).*f32\[1,7\].*f32\[1,2\]/,
  ],
  signature_output_dtype: [
    dense({ manifest: { executable_outputs: [{ ...MANIFEST.executable_outputs[0], dtype: "i32" }] } }),
    /result 0 \(output 'y'\).*i32\[1,2\].*f32\[1,2\]/,
  ],
  hook_throws_at_load: [
    withHooks(`${REGISTER}throw new Error("no licence today");`),
    /hook_throws_at_load\/model\.ts:2:11: no licence today/,
  ],
  hook_registers_nothing: [withHooks("export const hooks = {};"), /model\.ts: .*registerModel/],
  hook_syntax: [withHooks(`${REGISTER}registerModel({ preprocess( { });`), /model\.ts:2:\d+/],
  hook_loops_at_load: [withHooks("for (;;);", 300), /model\.ts: .*300 ms/],
  hook_waits_at_load: [withHooks("await new Promise(() => {});", 300), /model\.ts: .*300 ms/],
  hook_ends_at_load: [withHooks("process.exit(3);"), /model\.ts: .*ended the thread.*3/],
  hook_imports_nothing_there: [withHooks(`import "no-such-package";\n${REGISTER}`), /model\.ts: .*no-such-package/],
  hook_registers_nonsense: [withHooks(`${REGISTER}registerModel({ preprocess: 3 });`), /model\.ts:2:1: .*preprocess/],
  hook_in_julia: [dense({ files: { "model.jl": "register_model()" } }), /model\.ts.*TypeScript.*model\.jl/],
  hook_a_directory: [dense(), /model\.ts.*directory/],
  manifest_a_directory: [dense({ files: { "manifest.yaml": null } }), /manifest\.yaml.*directory/],
  manifest_a_pipe: [dense({ files: { "manifest.yaml": null } }), /manifest\.yaml.*pipe/],
  manifest_not_yaml: [dense({ files: { "manifest.yaml": "a: [b\nc: }{" } }), /line 2, column \d+: not YAML/],
  manifest_not_text: [dense({ files: { "manifest.yaml": Uint8Array.of(0xff, 0xfe, 0, 1) } }), /manifest\.yaml.*UTF-8/],
  manifest_empty: [dense({ files: { "manifest.yaml": "" } }), /format_version.*nothing/],
  manifest_unknown_key: [dense({ manifest: { batchin: {} } }), /batchin.*batching/],
  manifest_other_version: [dense({ manifest: { format_version: "9.1" } }), /format_version.*"3\.0".*9\.1/],
  manifest_several_faults: [
    dense({ manifest: { warmup: "perhaps", batching: { compiled_batch_sizes: [0] } } }),
    /compiled_batch_sizes(.|\n)*warmup|warmup(.|\n)*compiled_batch_sizes/,
  ],
  compile_option_unknown: [dense({ manifest: { compile_options: { xla_no_such_flag: true } } }), /xla_no_such_flag/],
  compile_option_value: [
    dense({ manifest: { compile_options: { xla_cpu_use_onednn: "perhaps" } } }),
    /xla_cpu_use_onednn/,
  ],
  "2024": [dense(), /versions are not supported.*'2024'/],
};

const SOUND = { simple: { from: "simple" }, dense_v2: { from: "dense_v2" }, dense: dense() } as const;

let repository: TempRepository;
let cacheDirectory: string;
let worker: TestWorker;
let client: KserveClient;

beforeAll(async () => {
  const damaged = Object.entries(DAMAGED).map(([name, [recipe]]) => [name, recipe] as const);
  repository = tempRepository({ ...SOUND, ...Object.fromEntries(damaged) });
  const at = (path: string) => join(repository.directory, path);
  mkdirSync(at("weights_a_directory/weights.safetensors"));
  mkdirSync(at("hook_a_directory/model.ts"));
  mkdirSync(at("manifest_a_directory/manifest.yaml"));
  symlinkSync("nowhere", at("module_a_dangling_link/model.b1.mlir"));
  for (const pipe of ["weights_a_pipe/weights.safetensors", "manifest_a_pipe/manifest.yaml"]) {
    Bun.spawnSync(["mkfifo", at(pipe)]);
  }
  cacheDirectory = mkdtempSync(join(tmpdir(), "xlaserver-cache-"));
  worker = await startWorker({ repository: repository.directory, cacheDirectory });
  client = kserveClient(worker.address);
}, START_MS_MAX);

afterAll(async () => {
  client?.[Symbol.dispose]();
  await worker?.[Symbol.asyncDispose]();
  repository?.[Symbol.dispose]();
  if (cacheDirectory) rmSync(cacheDirectory, { recursive: true, force: true });
});

/** [1, 10, 100] through a dense layer, and what came of it. */
async function inferDense(modelName: string): Promise<number[]> {
  const inputs = [{ ...tensor("x", "FP32", 1, 3), contents: { fp32Contents: [1, 10, 100] } }];
  const { rawOutputContents } = await client.call("modelInfer", { modelName, inputs });
  return [...new Float32Array(rawOutputContents[0]!.slice().buffer)];
}

test.each(Object.keys(DAMAGED))("%s", async (name) => {
  const says = DAMAGED[name]![1];
  const { models } = await client.call("repositoryIndex", {});
  const entry = models.find((model) => model.name === name);
  expect(entry?.state).toBe("UNAVAILABLE");
  expect(entry?.reason).toMatch(says);
  // Words for people, without a stack or an address of ours.
  expect(entry?.reason).not.toMatch(/\n\s+at |0x[0-9a-f]{8}|undefined/);
  const outcome = await failure(inferDense(name));
  expect(outcome).toStartWith(`UNAVAILABLE: model '${name}' is not available: `);
  expect(outcome).toMatch(says);
  expect((await client.call("modelReady", { name })).ready).toBe(false);
  expect(await failure(client.call("modelMetadata", { name }))).toStartWith("UNAVAILABLE");
  const line = await worker.logged("model unavailable", ({ model }) => model === name);
  expect(line.level).toBe("error");
  expect(String(line.error)).toMatch(says);
});

test("the sound bundles beside them serve right results", async () => {
  expect(await inferDense("dense")).toEqual([321.5, 654.25]);
  expect(await inferDense("dense_v2")).toEqual([531.5, 642.25]);
  const row = Int32Array.from({ length: 16 }, (_, index) => index);
  const inputs = [tensor("INPUT0", "INT32", 1, 16), tensor("INPUT1", "INT32", 1, 16)];
  const raw = new Uint8Array(row.buffer);
  const reply = await client.call("modelInfer", { modelName: "simple", inputs, rawInputContents: [raw, raw] });
  const [sum, difference] = reply.rawOutputContents.map((bytes) => [...new Int32Array(bytes.slice().buffer)]);
  expect(sum).toEqual([...row].map((value) => 2 * value));
  expect(difference).toEqual(new Array(16).fill(0));
});

test("the server is live and ready, and counts them", async () => {
  for (const page of ["healthz", "readyz"]) {
    expect((await fetch(`http://127.0.0.1:${worker.metricsPort}/${page}`)).status).toBe(200);
  }
  expect((await client.call("serverReady", {})).ready).toBe(true);
  const { models } = await client.call("repositoryIndex", { ready: true });
  expect(models.map(({ name }) => name)).toEqual(Object.keys(SOUND).sort());
  const line = await worker.logged("ready");
  expect(line).toMatchObject({ models: Object.keys(SOUND).length, unavailable: Object.keys(DAMAGED).length });
});

test(
  "--strict exits with 1 and has named every bad bundle",
  async () => {
    await using strict = spawnServer({ repository: repository.directory, cacheDirectory, flags: ["--strict"] });
    expect(await strict.exited).toBe(1);
    const named = strict.log.filter(({ event }) => event === "model unavailable").map(({ model }) => String(model));
    expect(named.sort()).toEqual(Object.keys(DAMAGED).sort());
  },
  START_MS_MAX,
);

test(
  "--strict serves where every bundle is sound",
  async () => {
    using sound = tempRepository(SOUND);
    await using strict = await startWorker({ repository: sound.directory, cacheDirectory, flags: ["--strict"] });
    strict.kill("SIGTERM");
    expect(await strict.exited).toBe(0);
  },
  START_MS_MAX,
);

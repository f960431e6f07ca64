// Golden files of bundles: each names its rule, holds a manifest, a dashed line, and what loadBundle makes of it.
//
// `# directory:` and `# files:` at the top say what lies around the manifest; FILE_CONTENTS below are the contents that
// a file may have (`model.mlir=empty`). UPDATE_GOLDEN=1 writes the expectations anew.

import { describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { stringify } from "yaml";
import { IssuesError } from "../../src/base/errors.ts";
import type { Bundle } from "../../src/bundle/bundle.ts";
import { loadBundle } from "../../src/bundle/load.ts";
import type { TensorSpec } from "../../src/tensor/signature.ts";
import { safetensorsFile } from "../support/safetensors.ts";

const DIRECTORY = join(import.meta.dir, "manifest");
const DASHES = `${"-".repeat(80)}\n`;

const TENSORS = {
  bias: { dtype: "F32", shape: [2], data: new Float32Array(2) },
  weight: { dtype: "F32", shape: [3, 2], data: new Float32Array(6) },
};
const ORDER = { argument_order: JSON.stringify(["weight", "bias"]) };

const FILE_CONTENTS: Readonly<Record<string, string | Uint8Array>> = {
  text: "module {}\n",
  empty: "",
  blank: " \n\n",
  bytecode: Uint8Array.of(0x4d, 0x4c, 0xef, 0x52, 0x0d, 0x53, 0x74),
  garbage: Uint8Array.of(0x7f, 0x45, 0x4c, 0x46, 0, 0, 0xff),
  pointer: "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
  tensorless: safetensorsFile({}),
  ordered: safetensorsFile(TENSORS, { metadata: ORDER }),
  unordered: safetensorsFile(TENSORS),
};

function writeFiles(directory: string, list: string): void {
  for (const entry of list.split(/,\s*/).filter(Boolean)) {
    const [name = "", content = name.endsWith(".safetensors") ? "tensorless" : "text"] = entry.split("=");
    const path = join(directory, name);
    mkdirSync(dirname(path), { recursive: true });
    if (content === "directory") mkdirSync(path);
    else if (content === "dangling") symlinkSync("nowhere", path);
    else writeFileSync(path, FILE_CONTENTS[content]!);
  }
}

/** `x f32 [n=batch, d=16]`, in wire order. */
function tensorInWords({ name, dtype, axes, batchAxis }: TensorSpec): string {
  expect(batchAxis).toBe(axes.findIndex((axis) => axis.kind === "batch"));
  const words = axes.map(({ letter, kind, size }) => `${letter}=${kind === "fixed" ? size : kind}`);
  return `${name} ${dtype} [${words.join(", ")}]`;
}

/** A Bundle without its directory, as YAML; what is at its default is left out. */
function inWords(bundle: Bundle): string {
  const { executable, client, variants, modules, weights, directory } = bundle;
  const below = (path: string) => relative(directory, path);
  return stringify(
    {
      name: bundle.name,
      format: bundle.formatVersion,
      description: bundle.description || undefined,
      inputs: executable.inputs.map(tensorInWords),
      outputs: executable.outputs.map(tensorInWords),
      client_inputs: client.inputs === executable.inputs ? undefined : client.inputs.map(tensorInWords),
      client_outputs: client.outputs === executable.outputs ? undefined : client.outputs.map(tensorInWords),
      variants:
        variants.length === 1 && modules.every(({ path }) => !path.includes(".v"))
          ? undefined
          : variants.map(({ sizes }) => sizes),
      modules: modules.map(
        ({ variant, batchSize, path }) => `${below(path)}: variant ${variant}, batch size ${batchSize}`,
      ),
      compiled_batch_sizes: bundle.compiledBatchSizes,
      weights: weights.arguments.map(
        ({ name, dtype, shape, fileOffset, byteLength, transposed }) =>
          `${name} ${dtype} [${shape}]: ${byteLength} bytes at ${fileOffset}${transposed ? ", transposed" : ""}`,
      ),
      weights_file: weights.file && below(weights.file),
      max_queue_delay_us: bundle.maxQueueDelayUs || undefined,
      priority_levels: bundle.priorityLevels === 1 ? undefined : bundle.priorityLevels,
      warmup: bundle.warmup ? undefined : false,
      compile_options: Object.keys(bundle.compileOptions).length > 0 ? bundle.compileOptions : undefined,
      hooks: bundle.hooks && `${below(bundle.hooks.file)}, ${bundle.hooks.timeLimitMs} ms`,
      provenance: Object.keys(bundle.provenance).length > 0 ? bundle.provenance : undefined,
      warnings: bundle.warnings.length > 0 ? bundle.warnings : undefined,
    },
    { lineWidth: 0, flowCollectionPadding: false },
  );
}

function outcome(manifest: string): string {
  const setting = (name: string) => new RegExp(`^# ${name}: *(.*)$`, "m").exec(manifest)?.[1];
  const root = mkdtempSync(join(tmpdir(), "xlaserver-golden-"));
  try {
    const directory = join(root, setting("directory") ?? "model");
    mkdirSync(directory);
    if (setting("manifest") !== "none") writeFileSync(join(directory, "manifest.yaml"), manifest);
    writeFiles(directory, setting("files") ?? "model.mlir");
    return inWords(loadBundle(directory));
  } catch (thrown) {
    if (!(thrown instanceof IssuesError)) throw thrown;
    return `${thrown.message}\n`;
  } finally {
    rmSync(root, { recursive: true });
  }
}

describe("golden manifests", () => {
  for (const file of readdirSync(DIRECTORY).sort()) {
    test(file.replace(/\.txt$/, ""), () => {
      const path = join(DIRECTORY, file);
      const [manifest = "", expected] = readFileSync(path, "utf8").split(DASHES);
      const actual = outcome(manifest);
      if (process.env.UPDATE_GOLDEN === "1") writeFileSync(path, `${manifest}${DASHES}${actual}`);
      else expect(actual).toBe(expected ?? "");
    });
  }
});

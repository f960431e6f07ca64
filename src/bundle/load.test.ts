// loadBundle on the examples and on directories that golden files can't hold: links, pipes, other people's files.

import { describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { EXAMPLES_DIRECTORY, tempBundle } from "../../tests/support/bundles.ts";
import { ServerError } from "../base/errors.ts";
import { BUNDLE_ISSUES_MAX, YAML_BYTES_MAX } from "../base/limits.ts";
import { wireShape } from "../tensor/signature.ts";
import { loadBundle } from "./load.ts";

function refusal(directory: string): string {
  try {
    loadBundle(directory);
  } catch (thrown) {
    expect(thrown).toBeInstanceOf(ServerError);
    return (thrown as ServerError).message;
  }
  throw new Error(`${directory} was expected to be refused`);
}

describe("examples", () => {
  test("simple", () => {
    const bundle = loadBundle(join(EXAMPLES_DIRECTORY, "simple"));
    expect(bundle.executable.inputs.map(wireShape)).toEqual([
      [-1, 16],
      [-1, 16],
    ]);
    expect(bundle.client).toBe(bundle.executable);
    expect(bundle.compiledBatchSizes).toEqual([1, 8]);
    expect(bundle.warnings).toEqual([]);
  });

  test("dense_v2, whose axes are reversed", () => {
    const bundle = loadBundle(join(EXAMPLES_DIRECTORY, "dense_v2"));
    expect(bundle.formatVersion).toBe("2.0");
    expect(bundle.executable.outputs.map(wireShape)).toEqual([[-1, 2]]);
    expect(bundle.weights.arguments.map(({ name, shape, transposed }) => [name, shape, transposed])).toEqual([
      ["dense.weight", [2, 3], true],
      ["dense.bias", [2], false],
    ]);
  });

  test("a Bundle crosses threads as it is", () => {
    const bundle = loadBundle(join(EXAMPLES_DIRECTORY, "simple"));
    expect(structuredClone(bundle)).toEqual(bundle);
  });

  test("a path with a slash at its end has the same name", () => {
    expect(loadBundle(`${join(EXAMPLES_DIRECTORY, "simple")}/`).name).toBe("simple");
  });
});

describe("links", () => {
  test("links are followed out of the bundle: who deploys a directory makes them", () => {
    using bundle = tempBundle({ from: "dense_v2" });
    const blobs = join(bundle.repository, "blobs");
    mkdirSync(blobs);
    for (const name of ["manifest.yaml", "model.b1.mlir", "weights.safetensors"]) {
      renameSync(join(bundle.directory, name), join(blobs, name));
      symlinkSync(join("..", "blobs", name), join(bundle.directory, name));
    }
    expect(loadBundle(bundle.directory).weights.file).toBe(join(bundle.directory, "weights.safetensors"));
    symlinkSync(bundle.directory, join(bundle.repository, "other"));
    expect(loadBundle(join(bundle.repository, "other")).name).toBe("other");
  });

  test("a dangling link and a loop of links are refused as what they are", () => {
    using bundle = tempBundle({ from: "dense_v2", files: { "weights.safetensors": null, "model.b1.mlir": null } });
    symlinkSync("nowhere", join(bundle.directory, "weights.safetensors"));
    symlinkSync("model.b1.mlir", join(bundle.directory, "model.b1.mlir"));
    expect(refusal(bundle.directory)).toBe(
      "dense_v2: model.b1.mlir: expected StableHLO, as text or as portable bytecode, received no regular file (a dangling link, a device, a pipe)\n" +
        "dense_v2: weights.safetensors: expected a safetensors file, received no such file",
    );
  });

  test("a pipe is refused, never waited for", () => {
    using bundle = tempBundle({ from: "dense_v2", files: { "weights.safetensors": null, "model.b1.mlir": null } });
    for (const name of ["weights.safetensors", "model.b1.mlir"]) {
      expect(Bun.spawnSync(["mkfifo", join(bundle.directory, name)]).exitCode).toBe(0);
    }
    const message = refusal(bundle.directory);
    expect(message).toContain("model.b1.mlir: expected StableHLO");
    expect(message).toContain("weights.safetensors: expected a safetensors file, received no regular file");
  });
});

describe("what can't be read", () => {
  test("a missing directory, a file in its place", () => {
    expect(refusal(join(EXAMPLES_DIRECTORY, "none"))).toContain("no such file or directory");
    expect(refusal(join(EXAMPLES_DIRECTORY, "simple", "manifest.yaml"))).toContain("not a directory");
  });

  // Root may read everything.
  test.skipIf(process.getuid?.() === 0)("files that belong to somebody else", () => {
    for (const name of ["manifest.yaml", "model.b1.mlir", "weights.safetensors"]) {
      using bundle = tempBundle({ from: "dense_v2" });
      chmodSync(join(bundle.directory, name), 0);
      expect(refusal(bundle.directory)).toBe(`cannot read '${join(bundle.directory, name)}': permission denied`);
    }
  });

  test("a manifest that is no text, and one without end", () => {
    using bundle = tempBundle({ from: "simple", files: { "manifest.yaml": Uint8Array.of(0xff, 0xfe, 0) } });
    expect(refusal(bundle.directory)).toBe("simple: manifest.yaml: expected text in UTF-8, received other bytes");
    writeFileSync(join(bundle.directory, "manifest.yaml"), "# é\n".repeat(YAML_BYTES_MAX));
    expect(refusal(bundle.directory)).toContain(`expected at most ${YAML_BYTES_MAX} bytes`);
  });
});

test("issues without number are reported up to a bound", () => {
  const inputs = Array.from({ length: 500 }, () => ({ name: 1, dtype: "x", shape: "nn" }));
  using bundle = tempBundle({ from: "simple", manifest: { executable_inputs: inputs } });
  const lines = refusal(bundle.directory).split("\n");
  expect(lines).toHaveLength(BUNDLE_ISSUES_MAX + 1);
  expect(lines.at(-1)).toBe("simple: expected a bundle without issues, received 1400 more of them");
});

test("a mapping of unknown keys is refused quickly", () => {
  const keys = Object.fromEntries(Array.from({ length: 30_000 }, (_, index) => [`executable_input${index}`, 1]));
  using bundle = tempBundle({ from: "simple", manifest: keys });
  expect(refusal(bundle.directory)).toContain("29980 more unknown ones");
});

test("files that the loader does not know are none of its business", () => {
  using bundle = tempBundle({ from: "simple", files: { "vocab.txt": "a", "data/more.txt": "b" } });
  rmSync(join(bundle.directory, "vocab.txt"));
  expect(loadBundle(bundle.directory).warnings).toEqual([]);
});

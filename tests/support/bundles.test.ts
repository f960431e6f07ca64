// Bundles in temporary repositories are copies that tests may damage, and the committed weights are reproducible.

import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { denseV2Weights, EXAMPLES_DIRECTORY, tempBundle, tempRepository } from "./bundles.ts";

test("a copied bundle takes manifest keys, new files and deletions, and its example stays as it was", () => {
  const original = readFileSync(join(EXAMPLES_DIRECTORY, "simple", "manifest.yaml"), "utf8");
  let directory: string;
  {
    using bundle = tempBundle({
      from: "simple",
      manifest: { batching: { compiled_batch_sizes: [8] }, description: undefined },
      files: { "model.b1.mlir": null, "notes/readme.txt": "hello" },
    });
    directory = bundle.directory;
    const manifest = parse(readFileSync(join(directory, "manifest.yaml"), "utf8"));
    expect(manifest.batching.compiled_batch_sizes).toEqual([8]);
    expect(manifest).not.toHaveProperty("description");
    expect(readdirSync(directory).sort()).toEqual(["manifest.yaml", "model.b8.mlir", "notes"]);
  }
  expect(existsSync(directory)).toBe(false);
  expect(readFileSync(join(EXAMPLES_DIRECTORY, "simple", "manifest.yaml"), "utf8")).toBe(original);
});

test("a repository takes and loses bundles", () => {
  using repository = tempRepository({ one: { from: "identity_fp32" } });
  repository.put("two", { files: { "manifest.yaml": "" } });
  expect(readdirSync(repository.directory).sort()).toEqual(["one", "two"]);
  repository.remove("one");
  expect(readdirSync(repository.directory)).toEqual(["two"]);
});

test("the committed weights of dense_v2 are what their script writes", () => {
  const committed = readFileSync(join(EXAMPLES_DIRECTORY, "dense_v2", "weights.safetensors"));
  expect(new Uint8Array(committed)).toEqual(denseV2Weights());
});

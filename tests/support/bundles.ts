// Bundles on disk for tests: copies of the examples in bundles/, changed as a test needs them, in a temporary model
// repository that goes when its owner does (`using`).
//
// A copy shares no file with its original: what a test damages is its own. Only weights that nobody may write in place
// (over 1 MB) are hard-linked where the file system can. Used by unit, contract and e2e tests.

import {
  copyFileSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { parse, stringify } from "yaml";
import { safetensorsFile } from "./safetensors.ts";

/** The example bundles, which are also the default model repository. */
export const EXAMPLES_DIRECTORY = join(import.meta.dir, "..", "..", "bundles");

export type ExampleName = "minilm" | "simple" | "identity_fp32" | "dense_v2";

const LINK_BYTES_MIN = 1_000_000;

/** How to make one bundle. */
export interface BundleRecipe {
  /** The example to copy; without it the bundle holds only `files`. */
  readonly from?: ExampleName;
  /** Top-level manifest keys to replace; undefined takes a key out. */
  readonly manifest?: Readonly<Record<string, unknown>>;
  /** Files to write, by path within the bundle; null deletes one. Applied last, so `manifest.yaml` here wins. */
  readonly files?: Readonly<Record<string, string | Uint8Array | null>>;
}

/** A directory of bundles that is deleted when disposed. */
export interface TempRepository extends Disposable {
  readonly directory: string;
  /** The directory of the bundle `name`. */
  bundle(name: string): string;
  /** Makes the bundle `name`, or changes it if it is there. */
  put(name: string, recipe: BundleRecipe): void;
  remove(name: string): void;
}

/** A model repository that holds a bundle for each recipe, named by its key. */
export function tempRepository(recipes: Readonly<Record<string, BundleRecipe>> = {}): TempRepository {
  const directory = mkdtempSync(join(tmpdir(), "xlaserver-bundles-"));
  const repository: TempRepository = {
    directory,
    bundle: (name) => join(directory, name),
    put: (name, recipe) => writeBundle(join(directory, name), recipe),
    remove: (name) => rmSync(join(directory, name), { recursive: true }),
    [Symbol.dispose]: () => rmSync(directory, { recursive: true, force: true }),
  };
  for (const [name, recipe] of Object.entries(recipes)) repository.put(name, recipe);
  return repository;
}

/** One bundle in a repository of its own, named as its example, or `model`. `directory` is the bundle's. */
export function tempBundle(
  recipe: BundleRecipe,
): Disposable & { readonly directory: string; readonly repository: string } {
  const name = recipe.from ?? "model";
  const repository = tempRepository({ [name]: recipe });
  return {
    directory: repository.bundle(name),
    repository: repository.directory,
    [Symbol.dispose]: () => repository[Symbol.dispose](),
  };
}

function writeBundle(directory: string, recipe: BundleRecipe): void {
  mkdirSync(directory, { recursive: true });
  if (recipe.from) copyExample(join(EXAMPLES_DIRECTORY, recipe.from), directory);
  if (recipe.manifest) {
    const path = join(directory, "manifest.yaml");
    // stringify leaves out keys whose value is undefined.
    writeFileSync(path, stringify({ ...parse(readFileSync(path, "utf8")), ...recipe.manifest }));
  }
  for (const [name, content] of Object.entries(recipe.files ?? {})) {
    const path = join(directory, name);
    // Deleted first: writing in place would reach through a hard link into the example.
    rmSync(path, { recursive: true, force: true });
    if (content === null) continue;
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
  }
}

function copyExample(source: string, target: string): void {
  for (const entry of readdirSync(source, { withFileTypes: true, recursive: true })) {
    if (!entry.isFile()) continue;
    const from = join(entry.parentPath, entry.name);
    const to = join(target, from.slice(source.length + 1));
    mkdirSync(dirname(to), { recursive: true });
    rmSync(to, { force: true });
    if (statSync(from).size < LINK_BYTES_MIN || !linked(from, to)) copyFileSync(from, to);
  }
}

function linked(from: string, to: string): boolean {
  try {
    linkSync(from, to);
    return true;
  } catch {
    return false; // another file system, or one without hard links: the caller copies
  }
}

/**
 * The weights of bundles/dense_v2: the file's shape [3, 2] is column-major, so the module receives [[1,3,5],[2,4,6]];
 * x = [1, 10, 100] gives y = [531.5, 642.25]. `bun tests/support/bundles.ts` writes them.
 */
export function denseV2Weights(): Uint8Array<ArrayBuffer> {
  return safetensorsFile(
    {
      "dense.bias": { dtype: "F32", shape: [2], data: Float32Array.of(0.5, 0.25) },
      "dense.weight": { dtype: "F32", shape: [3, 2], data: Float32Array.of(1, 2, 3, 4, 5, 6) },
    },
    { metadata: { argument_order: JSON.stringify(["dense.weight", "dense.bias"]) } },
  );
}

if (import.meta.main) writeFileSync(join(EXAMPLES_DIRECTORY, "dense_v2", "weights.safetensors"), denseV2Weights());

// Thousands of random changes to good manifests and headers: each is read or refused with issues, never anything else.

import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { denseV2Weights, EXAMPLES_DIRECTORY } from "../../tests/support/bundles.ts";
import { Rng } from "../../tests/support/rng.ts";
import { type Issue, IssuesError } from "../base/errors.ts";
import { parseManifest } from "./manifest.ts";
import { findModules } from "./modules.ts";
import { parseHeader } from "./safetensors.ts";
import { weightArguments } from "./weights.ts";

const SEED = Number(process.env.SEED ?? 1);
const ROUNDS = 3000;

const golden = (name: string) =>
  readFileSync(join(import.meta.dir, "../../tests/golden/manifest", `${name}.txt`), "utf8").split("----")[0]!;
const MANIFESTS = [
  golden("3.0-complete"),
  golden("2.0-complete"),
  golden("variants"),
  golden("text-anchors"),
  readFileSync(join(EXAMPLES_DIRECTORY, "dense_v2", "manifest.yaml"), "utf8"),
];

const MANIFEST_PIECES = [
  ..."{}[]:,-&*!|>%@#'\"\n\t\0 ",
  ..."n;b;t: -1;-1;0;1e999;.nan;~;null;true;2.0;3.0;f32;bytes;f8_e5m2;&a [*a];*a;<<: ;__proto__: ;? ;---".split(";"),
  ..."9007199254740993;shape: ;dims: {};\u{1F600}".split(";"),
];
const HEADER_PIECES = [
  ...'{}[]:,"\\ ',
  ...'0;-1;1e400;2.5;null;true;18446744073709551615;"F32";"F64";"a":;"__metadata__":;"argument_order":'.split(";"),
  ...'"data_offsets":;[0,8];"\\u0000";"__proto__":{}'.split(";"),
];

/** The text with one to four random cuts, repetitions, swaps of letters and insertions. */
function mutate(text: string, pieces: readonly string[], rng: Rng): string {
  let mutated = text;
  for (let count = 1 + rng.below(4); count > 0; count--) {
    const at = rng.below(mutated.length + 1);
    const length = rng.chance(0.8) ? rng.below(6) : rng.below(mutated.length);
    const cut = mutated.slice(at, at + length);
    const replacement = [rng.pick(pieces), "", cut + cut, String.fromCharCode(rng.below(256))][rng.below(4)]!;
    mutated = mutated.slice(0, at) + replacement + mutated.slice(at + length);
  }
  return mutated;
}

function sweep(base: readonly string[], pieces: readonly string[], read: (text: string, issues: Issue[]) => boolean) {
  const rng = new Rng(SEED);
  let good = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const text = mutate(rng.pick(base), pieces, rng);
    const issues: Issue[] = [];
    try {
      if (read(text, issues)) good++;
      else if (issues.length === 0) throw new Error("refused without an issue");
      new IssuesError("bundle", issues);
    } catch (thrown) {
      throw new Error(`SEED=${SEED}, round ${round}, text ${JSON.stringify(text)}`, { cause: thrown });
    }
  }
  return good;
}

test("manifests", () => {
  const entries = ["model.mlir", "model.v0.b1.mlir"].map((name) => ({ name, kind: "other" as const }));
  const good = sweep(MANIFESTS, MANIFEST_PIECES, (text, issues) => {
    const manifest = parseManifest(text, { typescript: true, julia: false }, issues);
    const sound = issues.length === 0;
    if (!manifest) return false;
    // What is sound has shapes and variants that others may rely on; unsound ones must not upset the next step.
    if (sound) expect(manifest.variants.length).toBeGreaterThan(0);
    findModules("/nowhere", entries, manifest, issues);
    return sound;
  });
  // Some changes do no harm, else the sweep would not get past the first check.
  expect(good).toBeGreaterThan(ROUNDS / 100);
  expect(good).toBeLessThan(ROUNDS);
});

test("safetensors headers", () => {
  const file = denseV2Weights();
  const headerBytes = Number(new DataView(file.buffer).getBigUint64(0, true));
  const header = new TextDecoder().decode(file.subarray(8, 8 + headerBytes));
  const dataBytes = file.byteLength - 8 - headerBytes;
  const good = sweep([header], HEADER_PIECES, (text, issues) => {
    const parsed = parseHeader(new TextEncoder().encode(text), dataBytes, "w", issues);
    if (!parsed) return false;
    const total = [...parsed.tensors.values()].reduce((sum, { byteLength }) => sum + byteLength, 0);
    expect(total).toBe(dataBytes);
    weightArguments(parsed, undefined, true, issues, "w");
    return true;
  });
  expect(good).toBeGreaterThan(ROUNDS / 100);
  expect(good).toBeLessThan(ROUNDS);
});

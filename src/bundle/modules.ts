// Which module files a bundle has, and whether they are modules: `model[.v<variant>][.b<batch size>].mlir`.
//
// A variant has either one module for each of its batch sizes, or one for whatever it was compiled for (batch size 0).
// Text and portable bytecode are told apart by content. Called by load.ts.

import { basename, join } from "node:path";
import type { Issue } from "../base/errors.ts";
import { type DirectoryEntry, readRange } from "../base/files.ts";
import { MODULE_HEAD_BYTES } from "../base/limits.ts";
import type { Signature } from "../tensor/signature.ts";
import type { ModuleFile } from "./bundle.ts";
import { decodeText, gitLfsPointer, kindInWords } from "./content.ts";
import type { Manifest } from "./manifest.ts";

const MODULE_NAME = /^model(?:\.v(0|[1-9]\d*))?(?:\.b([1-9]\d*))?\.mlir$/;

/** Every MLIR bytecode file begins with it (https://mlir.llvm.org/docs/BytecodeFormat/), StableHLO artifacts too. */
const BYTECODE_MAGIC = Uint8Array.of(0x4d, 0x4c, 0xef, 0x52);

export interface FoundModules {
  /** Sorted by variant, then batch size. */
  readonly modules: readonly ModuleFile[];
  readonly warnings: readonly string[];
}

/** The modules that the manifest calls for, among the directory's entries. */
export function findModules(
  directory: string,
  entries: readonly DirectoryEntry[],
  manifest: Manifest,
  issues: Issue[],
): FoundModules {
  const { variants, declaredBatchSizes, executable } = manifest;
  const files = new Map(entries.filter(({ name }) => MODULE_NAME.test(name)).map((entry) => [entry.name, entry]));
  const sizesByPrefix = batchSizes(files.keys());
  const modules = variants.flatMap((variant, index): ModuleFile[] => {
    const prefix = Object.keys(variant.sizes).length === 0 ? "model" : `model.v${index}`;
    const sizes = sizesByPrefix.get(prefix);
    const module = (batchSize: number, name: string) => ({ variant: index, batchSize, path: join(directory, name) });
    if (sizes) {
      reportMissing(prefix, sizes, declaredBatchSizes, issues);
      return sizes.map((size) => module(size, `${prefix}.b${size}.mlir`));
    }
    const name = `${prefix}.mlir`;
    if (files.has(name)) return [module(0, name)];
    issues.push({ path: name, expected: expectedModules(prefix, declaredBatchSizes), received: "none of them" });
    return [];
  });

  const used = new Set(modules.map(({ path }) => basename(path)));
  for (const name of used) checkContent(directory, files.get(name)!, issues);
  checkBatchAxis(modules, executable, issues);
  const unused = variants.length === 0 ? [] : [...files.keys()].filter((name) => !used.has(name));
  return {
    modules,
    warnings: [
      ...unused.map((name) => `'${name}' is not used: the manifest calls for other modules`),
      ...undeclaredSizes(modules, declaredBatchSizes),
    ],
  };
}

/** The batch sizes, ascending, that each prefix has files for: `model`, `model.v0`, ... */
function batchSizes(names: Iterable<string>): Map<string, number[]> {
  const sizes = new Map<string, number[]>();
  for (const name of names) {
    const [, variant, batchSize] = MODULE_NAME.exec(name)!;
    if (batchSize === undefined) continue;
    const prefix = variant === undefined ? "model" : `model.v${variant}`;
    sizes.set(prefix, [...(sizes.get(prefix) ?? []), Number(batchSize)]);
  }
  for (const ofPrefix of sizes.values()) ofPrefix.sort((a, b) => a - b);
  return sizes;
}

/** Sizes differ in their rows, so inputs must have some. */
function checkBatchAxis(modules: readonly ModuleFile[], { inputs }: Signature, issues: Issue[]): void {
  const sizes = [...new Set(modules.map(({ batchSize }) => batchSize))];
  if (sizes.length < 2 || inputs.some((spec) => spec.batchAxis >= 0)) return;
  const expected = `a batch axis ('n' or 'b'), as there are modules for batch sizes ${sizes.join(", ")}`;
  issues.push({ path: "executable_inputs", expected, received: "none" });
}

function expectedModules(prefix: string, declared: readonly number[]): string {
  const sizes = declared.length > 0 ? declared.map((size) => `${prefix}.b${size}.mlir`) : [`${prefix}.b<size>.mlir`];
  return `this file, or ${sizes.join(", ")}`;
}

function reportMissing(prefix: string, found: readonly number[], declared: readonly number[], issues: Issue[]): void {
  for (const size of declared) {
    if (found.includes(size)) continue;
    const expected = `a module for batch size ${size}, which batching.compiled_batch_sizes lists`;
    issues.push({ path: `${prefix}.b${size}.mlir`, expected, received: "no such file" });
  }
}

/** Files decide which sizes are loaded; one beside the manifest's list may be left over from an earlier export. */
function undeclaredSizes(modules: readonly ModuleFile[], declared: readonly number[]): string[] {
  if (declared.length === 0) return [];
  return modules
    .filter(({ batchSize }) => batchSize > 0 && !declared.includes(batchSize))
    .map(
      ({ batchSize, path }) =>
        `'${basename(path)}' is loaded, though batching.compiled_batch_sizes does not list ${batchSize}`,
    );
}

function checkContent(directory: string, { name, kind }: DirectoryEntry, issues: Issue[]): void {
  const received =
    kind === "file" ? contentProblem(readRange(join(directory, name), 0, MODULE_HEAD_BYTES)) : kindInWords(kind);
  if (received) issues.push({ path: name, expected: "StableHLO, as text or as portable bytecode", received });
}

/** What a module's first bytes are, where they are neither bytecode nor text. */
function contentProblem(head: Uint8Array): string | undefined {
  if (head.byteLength === 0) return "an empty file";
  if (BYTECODE_MAGIC.every((byte, index) => head[index] === byte)) return undefined;
  const pointer = gitLfsPointer(head);
  if (pointer) return pointer;
  const text = decodeText(head);
  if (text === undefined || text.includes("\0")) return "bytes that are neither";
  return text.trim() === "" ? "blanks only" : undefined;
}

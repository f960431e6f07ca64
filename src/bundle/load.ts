// loadBundle: a directory to a Bundle, or to one error that lists everything that is wrong with it.
//
// Reads the manifest, the heads of the modules and the header of the weights; compiles and loads nothing. Called on a
// loader thread by whoever makes models of bundles, and by `validate`.

import { basename, join, resolve } from "node:path";
import { type Issue, IssuesError } from "../base/errors.ts";
import { type DirectoryEntry, listDirectory, readRange } from "../base/files.ts";
import { BUNDLE_ISSUES_MAX, MODEL_NAME_LENGTH_MAX, YAML_BYTES_MAX } from "../base/limits.ts";
import type { Bundle, ModuleFile } from "./bundle.ts";
import { decodeText, kindInWords } from "./content.ts";
import { type Manifest, parseManifest } from "./manifest.ts";
import { findModules } from "./modules.ts";
import { readWeights } from "./weights.ts";

export const MANIFEST_NAME = "manifest.yaml";
const HOOKS_NAME = "model.ts";

/**
 * Reads the bundle in `directory`. Errors: IssuesError with all its issues, paths as in the manifest or names of files;
 * NOT_FOUND, PERMISSION_DENIED and the like where a file can't be read.
 */
export function loadBundle(directory: string): Bundle {
  const root = resolve(directory);
  const name = basename(root);
  const entries = listDirectory(root);
  const issues: Issue[] = [];
  checkName(name, issues);
  const has = (file: string) => checkFile(entries, file, issues);
  const hooks = { typescript: has(HOOKS_NAME), julia: has("model.jl") };
  const text = readManifestText(root, entries, issues);
  const manifest = text === undefined ? undefined : parseManifest(text, hooks, issues);
  if (!manifest) throw failure(name, issues);
  const { modules, warnings } = findModules(root, entries, manifest, issues);
  const weights = readWeights(root, manifest, issues);
  if (issues.length > 0) throw failure(name, issues);

  const { formatVersion, description, executable, client, variants, maxQueueDelayUs, priorityLevels } = manifest;
  const { warmup, compileOptions, hookTimeLimitMs, provenance } = manifest;
  return {
    name,
    directory: root,
    formatVersion,
    description,
    executable,
    client,
    variants,
    modules,
    weights,
    compiledBatchSizes: sizesOfAll(modules, variants.length),
    maxQueueDelayUs,
    priorityLevels,
    warmup,
    compileOptions,
    hooks: hooks.typescript ? { file: join(root, HOOKS_NAME), timeLimitMs: hookTimeLimitMs } : undefined,
    provenance,
    warnings: [
      ...nameWarnings(name, manifest),
      ...(priorityLevels > 1
        ? ["batching.priority_levels has no effect in this version: requests have no priorities"]
        : []),
      ...manifest.warnings,
      ...warnings,
      ...weightsWarnings(entries, manifest),
    ],
  };
}

/** The error for these issues, of which there is at least one. */
function failure(name: string, issues: readonly Issue[]): IssuesError {
  const more = issues.length - BUNDLE_ISSUES_MAX;
  if (more <= 0) return new IssuesError(name, issues);
  const rest = { path: "", expected: "a bundle without issues", received: `${more} more of them` };
  return new IssuesError(name, [...issues.slice(0, BUNDLE_ISSUES_MAX), rest]);
}

function checkName(name: string, issues: Issue[]): void {
  const report = (expected: string) => issues.push({ path: "", expected, received: `the directory name '${name}'` });
  if (/^\d+$/.test(name)) report("a model's name, as directories of versions are not supported yet");
  else if (!/^[A-Za-z0-9_][A-Za-z0-9_.-]*$/.test(name)) {
    report("a directory name of letters, digits, '_', '-' and '.', the first no '-' or '.'");
  } else if (name.length > MODEL_NAME_LENGTH_MAX)
    report(`a directory name of at most ${MODEL_NAME_LENGTH_MAX} letters`);
}

/** True for a file of that name; anything else of that name is an issue. */
function checkFile(entries: readonly DirectoryEntry[], name: string, issues: Issue[]): boolean {
  const kind = entries.find((entry) => entry.name === name)?.kind;
  if (kind && kind !== "file") issues.push({ path: name, expected: "a file", received: kindInWords(kind) });
  return kind === "file";
}

function readManifestText(root: string, entries: readonly DirectoryEntry[], issues: Issue[]): string | undefined {
  if (!checkFile(entries, MANIFEST_NAME, issues)) {
    const missing = !entries.some(({ name }) => name === MANIFEST_NAME);
    if (missing) issues.push({ path: MANIFEST_NAME, expected: "a file", received: "no such file" });
    return undefined;
  }
  // One byte more than is allowed, so that the parser refuses a longer file for its length.
  const text = decodeText(readRange(join(root, MANIFEST_NAME), 0, YAML_BYTES_MAX + 1));
  if (text === undefined) issues.push({ path: MANIFEST_NAME, expected: "text in UTF-8", received: "other bytes" });
  return text;
}

/** Batch sizes that every variant has a module of, ascending; none where modules serve whatever they were compiled for. */
function sizesOfAll(modules: readonly ModuleFile[], variants: number): number[] {
  const sizes = [...new Set(modules.map(({ batchSize }) => batchSize))].filter((size) => size > 0);
  const count = (size: number) => modules.filter(({ batchSize }) => batchSize === size).length;
  return sizes.filter((size) => count(size) === variants).sort((a, b) => a - b);
}

function nameWarnings(name: string, manifest: Manifest): string[] {
  if (manifest.name === "" || manifest.name === name) return [];
  return [`the manifest says name '${manifest.name}', the directory '${name}', which wins`];
}

function weightsWarnings(entries: readonly DirectoryEntry[], manifest: Manifest): string[] {
  const file = "weights.safetensors";
  if (manifest.weights.file !== undefined || !entries.some(({ name }) => name === file)) return [];
  return [`'${file}' is not used: the manifest has no 'weights: {file: ${file}}'`];
}

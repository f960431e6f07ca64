// The files that the house rules look at, read once, and parsed once where a rule wants the syntax tree.
//
// A rule is a pure function from sources to violations, so that its own test can hand it a text. Paths are relative to
// the repository's root, with forward slashes. Used by tidy.test.ts and by the rules beside this file.

import { readdirSync, readFileSync } from "node:fs";
import { basename, extname, join } from "node:path";
import ts from "typescript";

export interface Violation {
  readonly path: string;
  /** 1-based; 0 for the file as a whole. */
  readonly line: number;
  readonly rule: string;
  /** What is wrong, then what to do. */
  readonly message: string;
}

export interface Source {
  readonly path: string;
  readonly text: string;
  readonly lines: readonly string[];
  /** The syntax tree of a TypeScript file; parsed at the first use. */
  readonly tree: ts.SourceFile;
}

export function source(path: string, text: string): Source {
  let tree: ts.SourceFile | undefined;
  return {
    path,
    text,
    lines: text.replace(/\n$/, "").split("\n"),
    get tree() {
      tree ??= ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
      return tree;
    },
  };
}

export const isTypeScript = ({ path }: Source) => path.endsWith(".ts");
export const isTest = ({ path }: Source) => path.endsWith(".test.ts");
export const isGenerated = ({ path }: Source) => path.startsWith("proto/gen/");
/** Product code: what the executable is made of. Tests, bundles and build scripts are not. */
export const isProduct = (file: Source) =>
  isTypeScript(file) && !isTest(file) && !isGenerated(file) && /^(src|ffi)\//.test(file.path);

/** 1-based line of a node. */
export function lineOf(file: Source, node: ts.Node): number {
  return file.tree.getLineAndCharacterOfPosition(node.getStart(file.tree)).line + 1;
}

/** Calls `visit` for every node of the file, parents first. */
export function walk(file: Source, visit: (node: ts.Node) => void): void {
  const step = (node: ts.Node) => {
    visit(node);
    ts.forEachChild(node, step);
  };
  step(file.tree);
}

// Texts that people write. Fixtures (vocabularies, golden files, tensors) may hold any words.
const TEXT_ENDINGS = new Set([
  ".ts",
  ".js",
  ".mjs",
  ".py",
  ".md",
  ".yaml",
  ".yml",
  ".sh",
  ".toml",
  ".proto",
  ".service",
]);
const TEXT_NAMES = new Set(["Dockerfile", "run", "package.json", "package-lock.json", "tsconfig.json", "biome.json"]);
const SKIPPED_FOLDERS = new Set(["node_modules", ".git", ".deps", "dist", "golden", ".venv", "__pycache__"]);

/** All files that the rules look at, below `root`, sorted by path. */
export function readSources(root: string): Source[] {
  const found: Source[] = [];
  const visit = (folder: string) => {
    for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
      const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
      if (entry.isDirectory() && !SKIPPED_FOLDERS.has(entry.name)) visit(path);
      if (entry.isDirectory() && entry.name === "golden") visitTests(path);
      if (entry.isFile() && isText(entry.name)) found.push(source(path, readFileSync(join(root, path), "utf8")));
    }
  };
  const visitTests = (folder: string) => {
    for (const name of readdirSync(join(root, folder))) {
      if (name.endsWith(".ts")) found.push(source(`${folder}/${name}`, readFileSync(join(root, folder, name), "utf8")));
    }
  };
  visit("");
  return found.sort((a, b) => (a.path < b.path ? -1 : 1));
}

const isText = (name: string) => TEXT_ENDINGS.has(extname(name)) || TEXT_NAMES.has(basename(name));

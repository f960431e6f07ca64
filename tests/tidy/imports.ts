// The import law: a file imports its own room or a strictly lower floor; no cycles; threads start through one door.
//
// Rooms are folders; their floors are the table below, which is the one of the design. Type-only and dynamic imports
// count. Tests and build scripts are free. Used by tidy.test.ts.

import { posix } from "node:path";
import ts from "typescript";
import { isGenerated, isProduct, isTest, isTypeScript, lineOf, type Source, type Violation, walk } from "./source.ts";

/** Floors, lowest first. Rooms of one floor are strangers to each other. */
const HOUSE: readonly (readonly string[])[] = [
  ["base"],
  ["ffi", "proto"],
  ["tensor"],
  ["api"],
  ["call", "metrics", "text"],
  ["wire", "net", "shm", "bundle", "config", "device", "schedule", "hooks"],
  ["model"],
  ["infer"],
  ["service"],
  ["worker", "gateway", "supervisor"],
  ["cli"],
  ["main"],
];

const FLOORS = new Map(HOUSE.flatMap((rooms, floor) => rooms.map((room) => [room, floor] as const)));

/** What a file of the product may name besides relative paths: `xlaserver` is api.ts by the name that bundles use. */
const ALIASES: Readonly<Record<string, string>> = { xlaserver: "src/api.ts", "xlaserver/text": "src/text/index.ts" };

/** The room of a path: `src/<room>/...`, `src/<room>.ts`, `ffi/...` or `proto/...`; undefined outside the house. */
export function roomOf(path: string): string | undefined {
  const [top, second] = path.split("/");
  if (top === "ffi" || top === "proto") return top;
  return top === "src" ? second?.replace(/\.ts$/, "") : undefined;
}

export interface Import {
  readonly line: number;
  /** As written. */
  readonly specifier: string;
  /** The path in the repository; undefined for packages and built-in modules. */
  readonly target: string | undefined;
  readonly typeOnly: boolean;
}

/** Every import of a file: static, re-export, `import()`, `import("...")` types and `require`. */
export function importsOf(file: Source): Import[] {
  const found: Import[] = [];
  const add = (node: ts.Node, specifier: ts.Node | undefined, typeOnly: boolean) => {
    if (!specifier || !ts.isStringLiteralLike(specifier)) return;
    const text = specifier.text;
    const target = text.startsWith(".") ? posix.join(posix.dirname(file.path), text) : ALIASES[text];
    found.push({ line: lineOf(file, node), specifier: text, target, typeOnly });
  };
  walk(file, (node) => {
    if (ts.isImportDeclaration(node)) {
      add(node, node.moduleSpecifier, node.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword);
    } else if (ts.isExportDeclaration(node)) add(node, node.moduleSpecifier, node.isTypeOnly);
    else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) add(node, node.argument.literal, true);
    else if (isImportCall(node)) add(node, node.arguments[0], false);
  });
  return found;
}

function isImportCall(node: ts.Node): node is ts.CallExpression {
  if (!ts.isCallExpression(node)) return false;
  const { expression } = node;
  return (
    expression.kind === ts.SyntaxKind.ImportKeyword || (ts.isIdentifier(expression) && expression.text === "require")
  );
}

/** A file of the product imports its own room or a strictly lower floor. */
export function importLaw(file: Source): Violation[] {
  if (!isProduct(file)) return [];
  const room = roomOf(file.path)!;
  const floor = FLOORS.get(room);
  const report = (line: number, message: string): Violation => ({ path: file.path, line, rule: "import-law", message });
  if (floor === undefined)
    return [report(0, `room '${room}' is not in the house: use a room of tests/tidy/imports.ts`)];

  return importsOf(file).flatMap(({ line, specifier, target }) => {
    if (target === undefined) return [];
    if (posix.extname(target) === "") return [report(line, `'${specifier}' has no ending: write '${specifier}.ts'`)];
    const other = roomOf(target);
    const otherFloor = other === undefined ? undefined : FLOORS.get(other);
    if (other === room) return [];
    if (target.endsWith(".test.ts")) return [report(line, `'${specifier}' is a test: move what you need out of it`)];
    if (otherFloor === undefined) {
      // Embedded files (licences, a plugin) may lie anywhere; code may not.
      if (!target.endsWith(".ts")) return [];
      return [report(line, `'${specifier}' lies outside the house: move it into a room`)];
    }
    if (otherFloor < floor) return [];
    const why = otherFloor === floor ? "a sibling of the same floor" : "a higher floor";
    return [report(line, `${room}/ imports ${other}/, ${why}: pass it in from above, or move the shared part down`)];
  });
}

/** What a computed import brings in can't be judged: only hooks/ loads code by a path that it is given. */
export function literalImports(file: Source): Violation[] {
  if (!isProduct(file) || roomOf(file.path) === "hooks") return [];
  const found: Violation[] = [];
  walk(file, (node) => {
    if (!isImportCall(node)) return;
    const argument = node.arguments[0];
    if (argument && ts.isStringLiteralLike(argument)) return;
    const message = "an import of a computed path hides a dependency: name the file, or load it in hooks/";
    found.push({ path: file.path, line: lineOf(file, node), rule: "import-law", message });
  });
  return found;
}

/** A bundle stands alone: its code imports its own files, `xlaserver` and `xlaserver/text`. */
export function bundleImports(file: Source): Violation[] {
  const bundle = /^bundles\/[^/]+\//.exec(file.path)?.[0];
  if (!bundle || !isTypeScript(file)) return [];
  return importsOf(file).flatMap(({ line, specifier, target }) => {
    if (Object.hasOwn(ALIASES, specifier) || target?.startsWith(bundle)) return [];
    if (isTest(file) && target === undefined) return [];
    if (/^(node|bun):/.test(specifier)) return [];
    const message = `a bundle can't import '${specifier}': it is loaded from anywhere on disk, so copy what it needs beside it`;
    return [{ path: file.path, line, rule: "bundle-imports", message }];
  });
}

/** No import cycle among the files of the product, types included. Each knot is reported once, with one way round. */
export function importCycles(files: readonly Source[]): Violation[] {
  const product = new Map(files.filter(isProduct).map((file) => [file.path, file]));
  const targets = new Map<string, string[]>();
  for (const [path, file] of product) {
    targets.set(path, [
      ...new Set(importsOf(file).flatMap(({ target }) => (target && product.has(target) ? [target] : []))),
    ]);
  }
  const found: Violation[] = [];
  const done = new Set<string>();
  const trail: string[] = [];
  const visit = (path: string) => {
    const start = trail.indexOf(path);
    if (start >= 0) {
      const message = `import cycle ${[...trail.slice(start), path].join(" -> ")}: move what both need to a third file`;
      found.push({ path, line: 0, rule: "import-cycle", message });
      return;
    }
    if (done.has(path)) return;
    trail.push(path);
    for (const target of targets.get(path)!) visit(target);
    trail.pop();
    done.add(path);
  };
  for (const path of product.keys()) visit(path);
  return found;
}

/** Every `*.thread.ts` is started by spawnThread, by its path below src/, and by nothing else. */
export function threadEntries(files: readonly Source[]): Violation[] {
  const found: Violation[] = [];
  const entries = new Map<string, boolean>();
  for (const file of files) {
    if (isProduct(file) && file.path.endsWith(".thread.ts")) entries.set(file.path, false);
  }
  for (const file of files.filter((each) => isTypeScript(each) && !isGenerated(each))) {
    walk(file, (node) => {
      if (!ts.isCallExpression(node) || !ts.isIdentifier(node.expression) || node.expression.text !== "spawnThread")
        return;
      const argument = node.arguments[0];
      const entry = argument && ts.isStringLiteralLike(argument) ? `src/${argument.text}.ts` : undefined;
      if (entry && entries.has(entry)) entries.set(entry, true);
      else if (isProduct(file)) {
        const message =
          'spawnThread wants a literal like "hooks/hook.thread" that names an existing src/<room>/<name>.thread.ts';
        found.push({ path: file.path, line: lineOf(file, node), rule: "threads", message });
      }
    });
    for (const { line, target, typeOnly } of importsOf(file)) {
      if (!target?.endsWith(".thread.ts") || typeOnly) continue;
      const message = `importing ${target} would run a thread's entry on this thread: import its parts, or spawnThread it`;
      found.push({ path: file.path, line, rule: "threads", message });
    }
  }
  for (const [path, spawned] of entries) {
    if (spawned) continue;
    found.push({
      path,
      line: 0,
      rule: "threads",
      message: "nothing starts this entry by spawnThread: start it, or delete it",
    });
  }
  return found;
}

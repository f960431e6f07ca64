// Side effects have one door each: files, threads, processes, native code, sockets and time.
//
// A door is a file or a room that may name the globals and modules of its effect; everybody else calls the door. Types
// of those modules are free: they have no effect. Used by tidy.test.ts.

import ts from "typescript";
import { isProduct, isTypeScript, lineOf, type Source, type Violation, walk } from "./source.ts";

interface Door {
  readonly effect: string;
  /** Files and folders (with a slash at the end) that may use it. An exception stands here with its reason. */
  readonly allowed: readonly string[];
  /** Modules that nobody else imports values of; a subpath counts as its module. */
  readonly modules: readonly string[];
  /** Globals as they are written: `Bun.file`, `setTimeout`. A name of Bun's is also caught when imported from "bun". */
  readonly globals: readonly string[];
}

const DOORS: readonly Door[] = [
  {
    effect: "files",
    allowed: ["src/base/files.ts"],
    modules: ["node:fs", "fs"],
    globals: ["Bun.file", "Bun.write", "Bun.mmap", "Bun.stdin", "Bun.Glob"],
  },
  {
    effect: "threads",
    // A thread's entry file talks to the thread that started it.
    allowed: ["src/base/threads.ts", "*.thread.ts"],
    modules: ["node:worker_threads", "worker_threads"],
    globals: ["Worker"],
  },
  {
    effect: "processes",
    allowed: ["src/base/processes.ts"],
    modules: ["node:child_process", "child_process", "node:cluster", "cluster"],
    globals: ["Bun.spawn", "Bun.spawnSync", "Bun.$", "process.kill"],
  },
  { effect: "native code", allowed: ["ffi/"], modules: ["bun:ffi"], globals: ["Bun.FFI", "process.dlopen"] },
  {
    effect: "sockets",
    allowed: ["src/net/"],
    modules: ["node:net", "node:tls", "node:http", "node:https", "node:http2", "node:dgram", "net", "http", "http2"],
    globals: ["Bun.listen", "Bun.connect", "Bun.serve", "Bun.udpSocket", "fetch", "WebSocket"],
  },
  {
    effect: "time",
    allowed: ["src/base/clock.ts"],
    modules: ["node:timers", "timers", "node:perf_hooks", "perf_hooks"],
    globals: [
      "Date.now",
      "performance.now",
      "performance.timeOrigin",
      "process.hrtime",
      "Bun.nanoseconds",
      "Bun.sleep",
      "Bun.sleepSync",
      "setTimeout",
      "setInterval",
      "AbortSignal.timeout",
    ],
  },
];

const byModule = new Map(DOORS.flatMap((door) => door.modules.map((name) => [name, door] as const)));
const byGlobal = new Map(DOORS.flatMap((door) => door.globals.map((name) => [name, door] as const)));

function mayUse(path: string, door: Door): boolean {
  return door.allowed.some((entry) => {
    if (entry.endsWith("/")) return path.startsWith(entry);
    return entry.startsWith("*") ? path.endsWith(entry.slice(1)) : path === entry;
  });
}

/** Product code reaches a side effect through its door only. */
export function sideEffectDoors(file: Source): Violation[] {
  if (!isProduct(file)) return [];
  const found: Violation[] = [];
  const report = (node: ts.Node, what: string, door: Door | undefined) => {
    if (!door || mayUse(file.path, door)) return;
    const message = `${what} is the side effect '${door.effect}': call ${door.allowed[0]} instead`;
    found.push({ path: file.path, line: lineOf(file, node), rule: "doors", message });
  };
  walk(file, (node) => {
    if (ts.isImportDeclaration(node)) return importDoors(node, report);
    if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      const [argument] = node.arguments;
      if (argument && ts.isStringLiteralLike(argument)) report(node, `'${argument.text}'`, doorOfModule(argument.text));
    }
    if (ts.isNewExpression(node) && node.expression.getText(file.tree) === "Date" && !node.arguments?.length) {
      report(node, "new Date()", byGlobal.get("Date.now"));
    }
    const name = globalName(file, node);
    if (name) report(node, name, byGlobal.get(name));
    if (name === "Bun") {
      const message = "Bun under another name hides side effects: write Bun.<name>";
      found.push({ path: file.path, line: lineOf(file, node), rule: "doors", message });
    }
  });
  return found;
}

function importDoors(node: ts.ImportDeclaration, report: (node: ts.Node, what: string, door?: Door) => void): void {
  const clause = node.importClause;
  if (clause?.phaseModifier === ts.SyntaxKind.TypeKeyword || !ts.isStringLiteral(node.moduleSpecifier)) return;
  const specifier = node.moduleSpecifier.text;
  const bindings = clause?.namedBindings;
  const names =
    bindings && ts.isNamedImports(bindings) ? bindings.elements.filter((each) => !each.isTypeOnly) : undefined;
  if (specifier === "bun") {
    for (const each of names ?? []) {
      const name = `Bun.${(each.propertyName ?? each.name).text}`;
      report(each, name, byGlobal.get(name));
    }
  } else if (names === undefined || names.length > 0) report(node, `'${specifier}'`, doorOfModule(specifier));
}

function doorOfModule(specifier: string): Door | undefined {
  return byModule.get(specifier) ?? byModule.get(specifier.replace(/\/.*$/, ""));
}

/** `Bun.file` for that access, `setTimeout` for a bare use, `Bun` where it is used whole; undefined elsewhere. */
function globalName(file: Source, node: ts.Node): string | undefined {
  if (ts.isPropertyAccessExpression(node)) {
    const owner = node.expression.getText(file.tree).replace(/^globalThis\./, "");
    return owner === "globalThis" ? node.name.text : `${owner}.${node.name.text}`;
  }
  if (!ts.isIdentifier(node) || isNameOnly(node)) return undefined;
  return node.text;
}

/** True for an identifier that names a member, a type, a declaration or the owner of a member, not a global's value. */
function isNameOnly(node: ts.Identifier): boolean {
  const { parent } = node;
  if (ts.isPropertyAccessExpression(parent)) return true;
  if (ts.isQualifiedName(parent) || ts.isTypeReferenceNode(parent) || ts.isTypeQueryNode(parent)) return true;
  if (ts.isExpressionWithTypeArguments(parent)) return ts.isInterfaceDeclaration(parent.parent.parent);
  if (ts.isShorthandPropertyAssignment(parent)) return false;
  return "name" in parent && parent.name === node;
}

/** Exported for the rule's own test: every door exists as a path once the house is built. */
export const DOOR_PATHS = DOORS.flatMap((door) => door.allowed).filter((path) => !path.startsWith("*"));

/** Where a ServerError carries more: the issues of one source, those of several, and the code that PJRT gave. */
const SERVER_ERROR_KINDS = ["src/base/errors.ts", "src/config/findings.ts", "ffi/pjrt/error.ts"];

/** The one error type: nobody declares a second ServerError or derives another kind from it. */
export function oneServerError(file: Source): Violation[] {
  if (!isTypeScript(file) || SERVER_ERROR_KINDS.includes(file.path)) return [];
  const found: Violation[] = [];
  walk(file, (node) => {
    if (!ts.isClassLike(node)) return;
    const parent = node.heritageClauses?.flatMap((clause) =>
      clause.types.map((type) => type.expression.getText(file.tree)),
    );
    if (node.name?.text !== "ServerError" && !parent?.includes("ServerError")) return;
    const message = "a second ServerError: throw the one of src/base/errors.ts with a code and a cause";
    found.push({ path: file.path, line: lineOf(file, node), rule: "one-server-error", message });
  });
  return found;
}

// YAML text to plain values, safe against hostile text: bounded, without cycles, with every key of a mapping once.
//
// Values are null, booleans, numbers, strings, lists and plain mappings with string keys; no tag makes anything else.
// Findings name the line. Used by every room that reads a YAML file.

import { isAlias, isNode, isScalar, LineCounter, type Node, type Pair, parseDocument, visit } from "yaml";
import { type Issue, messageOf } from "./errors.ts";
import { YAML_ALIASES_MAX, YAML_BYTES_MAX, YAML_DEPTH_MAX, YAML_ISSUES_MAX } from "./limits.ts";

export interface YamlText {
  /** undefined when there are issues; null for an empty text. */
  readonly value: unknown;
  readonly issues: readonly Issue[];
}

const PLAIN_TAGS = new Set(
  ["str", "int", "float", "bool", "null", "map", "seq"].map((tag) => `tag:yaml.org,2002:${tag}`),
);

/** Parses one YAML 1.2 document (core schema). Never throws; all issues at once, at most YAML_ISSUES_MAX. */
export function parseYaml(text: string): YamlText {
  const refuse = (path: string, expected: string, received: string): YamlText => {
    return { value: undefined, issues: [{ path, expected, received }] };
  };
  if (Buffer.byteLength(text) > YAML_BYTES_MAX) return refuse("", `at most ${YAML_BYTES_MAX} bytes`, "more");

  const lines = new LineCounter();
  const lineOf = (offset: number | undefined) => `line ${lines.linePos(offset ?? 0).line}`;
  const placeOf = (offset: number) => `${lineOf(offset)}, column ${lines.linePos(offset).col}`;
  // The parser's own check of unique keys takes quadratic time (a minute for 600 kB), so checkNodes does it.
  const document = parseDocument(text, { uniqueKeys: false, prettyErrors: false, lineCounter: lines });
  const issues: Issue[] = [];
  for (const { message, code, pos } of document.errors.slice(0, YAML_ISSUES_MAX)) {
    const path = placeOf(pos[0]);
    // The parser may complain of one place several times.
    if (issues.at(-1)?.path === path) continue;
    if (code === "MULTIPLE_DOCS") issues.push({ path, expected: "one document", received: "a second one" });
    else issues.push({ path, expected: "", received: `not YAML: ${message.slice(0, 200)}` });
  }
  if (issues.length === 0) checkNodes(document.contents, lineOf, issues);
  if (issues.length > 0) return { value: undefined, issues: issues.slice(0, YAML_ISSUES_MAX) };

  try {
    const value: unknown = document.toJS({ maxAliasCount: YAML_ALIASES_MAX });
    if (!isTree(value, YAML_DEPTH_MAX)) {
      return refuse("", `lists and mappings at most ${YAML_DEPTH_MAX} deep`, "deeper ones, or one that holds itself");
    }
    return { value, issues };
  } catch (thrown) {
    return refuse("", "anchors that stand before their aliases, and few of them", messageOf(thrown));
  }
}

/** Keys once each and scalar, tags plain, aliases few. */
function checkNodes(root: Node | null, lineOf: (offset?: number) => string, issues: Issue[]): void {
  let aliases = 0;
  const report = (node: Node, expected: string, received: string) => {
    issues.push({ path: lineOf(node.range?.[0]), expected, received });
  };
  visit(root, {
    Node(_, node) {
      if (isAlias(node)) aliases++;
      else if (node.tag && !PLAIN_TAGS.has(node.tag)) report(node, "a value without a tag", `the tag '${node.tag}'`);
    },
    Map(_, map) {
      checkKeys(map.items as Pair[], report);
    },
  });
  if (aliases > YAML_ALIASES_MAX) {
    issues.push({ path: "", expected: `at most ${YAML_ALIASES_MAX} aliases`, received: `${aliases}` });
  }
}

function checkKeys(pairs: readonly Pair[], report: (node: Node, expected: string, received: string) => void): void {
  const seen = new Set<string>();
  for (const { key } of pairs) {
    if (!isNode(key)) continue;
    if (!isScalar(key)) report(key, "a key that is one word", "a list, a mapping or an alias as a key");
    else if (seen.has(String(key.value))) report(key, "each key once", `'${key.value}' again`);
    else seen.add(String(key.value));
  }
}

/** True when no value holds itself and none lies deeper than `depth`. A shared value is looked at once. */
function isTree(value: unknown, depth: number, done = new Set<object>()): boolean {
  if (typeof value !== "object" || value === null || done.has(value)) return true;
  if (depth === 0) return false;
  for (const inner of Object.values(value)) if (!isTree(inner, depth - 1, done)) return false;
  done.add(value);
  return true;
}

// YAML that is hostile or wrong becomes issues, quickly; good YAML becomes plain values.

import { expect, test } from "bun:test";
import { YAML_BYTES_MAX } from "./limits.ts";
import { parseYaml } from "./yaml.ts";

const messages = (text: string) =>
  parseYaml(text).issues.map(({ path, expected, received }) => `${path}: ${expected} / ${received}`);

test("values of the core schema", () => {
  expect(parseYaml("a: 2.0\nb: [y, no, ~, 0x10, '1']\nc: {d: true}").value).toEqual({
    a: 2,
    b: ["y", "no", null, 16, "1"],
    c: { d: true },
  });
  expect(parseYaml("").value).toBeNull();
});

test("a few anchors and aliases", () => {
  expect(parseYaml("a: &x {n: 1}\nb: [*x, *x]").value).toEqual({ a: { n: 1 }, b: [{ n: 1 }, { n: 1 }] });
});

test("a key named __proto__ is only a key", () => {
  const { value } = parseYaml("__proto__: {polluted: 1}");
  expect(Object.keys(value as object)).toEqual(["__proto__"]);
  expect(({} as Record<string, unknown>).polluted).toBeUndefined();
});

test("syntax errors name their line", () => {
  expect(messages("a: 1\nb: [1,\nc: }")[0]).toStartWith("line 3, column 1:  / not YAML: ");
  expect(messages("a: 1\n---\nb: 2")).toEqual(["line 2, column 1: one document / a second one"]);
  expect(messages("a: *x")).toEqual([
    ": anchors that stand before their aliases, and few of them / Unresolved alias (the anchor must be set before the alias): x",
  ]);
});

test("duplicate keys, keys that are no words, tags", () => {
  expect(messages("a: 1\nb: {c: 1, c: 2}\na: 3")).toEqual([
    "line 3: each key once / 'a' again",
    "line 2: each key once / 'c' again",
  ]);
  expect(messages("1: a\n'1': b")).toEqual(["line 2: each key once / '1' again"]);
  expect(messages("? [a]\n: b")).toEqual(["line 1: a key that is one word / a list, a mapping or an alias as a key"]);
  expect(messages("a: !!binary aGk=")).toEqual(["line 1: a value without a tag / the tag 'tag:yaml.org,2002:binary'"]);
  expect(messages("a: !run x")).toHaveLength(1);
});

test.each([
  ["too long", "#".repeat(YAML_BYTES_MAX + 1)],
  ["60,000 equal keys", "k: 1\n".repeat(60_000)],
  ["deep flow lists", "[".repeat(100_000)],
  ["deep block lists", "- ".repeat(100_000)],
  ["deep good lists", `${"[".repeat(40)}${"]".repeat(40)}`],
  ["a list that holds itself", "a: &x [*x]"],
  [
    "a bomb of aliases",
    Array.from({ length: 12 }, (_, i) => `a${i}: &a${i} [${Array(9).fill(i ? `*a${i - 1}` : "x")}]`).join("\n"),
  ],
  ["many aliases", `a: &a 1\nb:\n${"- *a\n".repeat(10_000)}`],
])("%s is refused", (_, text) => {
  const { value, issues } = parseYaml(text);
  expect(value).toBeUndefined();
  expect(issues.length).toBeGreaterThan(0);
  expect(issues.length).toBeLessThanOrEqual(20);
});

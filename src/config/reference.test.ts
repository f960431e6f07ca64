// The schema as others see it: documentation, JSON Schema, variables, words.

import { expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as v from "valibot";
import { describe as inWords, type JsonSchema, jsonSchemaOf } from "./json-schema.ts";
import { settableKeys, variableOf } from "./overrides.ts";
import { keyTables, nodeFileSchema } from "./reference.ts";
import { workerSchema } from "./schema.ts";

const DOCUMENT = join(import.meta.dir, "../../docs/node-file.md");

test("docs/node-file.md has today's tables (UPDATE_GOLDEN=1 writes them)", () => {
  const document = readFileSync(DOCUMENT, "utf8");
  const start = document.indexOf("### The node");
  if (process.env.UPDATE_GOLDEN) writeFileSync(DOCUMENT, document.slice(0, start) + keyTables());
  else expect(document.slice(start)).toBe(keyTables());
});

test("every key that can be given says what it is", () => {
  const missing: string[] = [];
  const walk = (schema: JsonSchema, path: string) => {
    for (const [name, at] of Object.entries(schema.properties ?? {})) {
      if (!at.description) missing.push(`${path}${name}`);
      walk(at, `${path}${name}.`);
    }
  };
  walk(nodeFileSchema(), "");
  expect(missing).toEqual([]);
});

test("no two keys have the same variable", () => {
  const variables = [...settableKeys(jsonSchemaOf(workerSchema)).keys()].map(variableOf);
  expect(new Set(variables).size).toBe(variables.length);
});

test("the JSON Schema has types, bounds and defaults", () => {
  const endpoints = nodeFileSchema().properties?.global?.properties?.endpoints?.properties;
  expect(endpoints?.port).toMatchObject({ type: "integer", minimum: 0, maximum: 65_535, default: 8001 });
  expect(endpoints?.metrics_port?.anyOf).toHaveLength(2);
  expect(endpoints?.max_concurrent_requests).toMatchObject({ not: {} });
});

test("a part of valibot that the converter does not know is a defect, not a gap", () => {
  expect(() => jsonSchemaOf(v.date())).toThrow("no JSON Schema for valibot's 'date'");
  expect(() => jsonSchemaOf(v.pipe(v.string(), v.email()))).toThrow("'email'");
});

test.each([
  [v.pipe(v.number(), v.gtValue(0), v.maxValue(1)), "a number above 0 and at most 1"],
  [v.pipe(v.number(), v.integer(), v.minValue(1)), "an integer of at least 1"],
  [v.picklist(["a"]), "a"],
  [v.union([v.literal("off"), v.boolean()]), "off or true or false"],
  [v.array(v.string()), "a list of strings"],
])("in words: %#", (schema, expected) => {
  expect(inWords(jsonSchemaOf(schema))).toBe(expected);
});

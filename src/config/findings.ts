// What is wrong with a configuration, all at once: each finding with its source, path, what was expected and received.
//
// A source is the node file, the environment or the command line; a user sees the issues of all of them together.
// Used inside config/; cli/ prints the message of a ConfigError and exits with 2.

import * as v from "valibot";
import { formatIssues, type Issue, ServerError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { describe, type JsonSchema, schemaAt } from "./json-schema.ts";

/** The issues of one source, e.g. `node.yaml` or `environment`. */
export interface Findings {
  readonly source: string;
  readonly issues: readonly Issue[];
}

/** At least one source with at least one issue. Its message lists them all, one a line. */
export class ConfigError extends ServerError {
  constructor(readonly findings: readonly Findings[]) {
    super("INVALID_ARGUMENT", findings.map(({ source, issues }) => formatIssues(source, issues)).join("\n"));
  }
}

/** Throws a ConfigError if any source has an issue. */
export function throwFindings(findings: readonly Findings[]): void {
  const found = findings.filter(({ issues }) => issues.length > 0);
  if (found.length > 0) throw new ConfigError(found);
}

const RECEIVED_CHARACTERS = 80;

/** A value as it stood in the file, cut where it gets long. */
export function show(value: unknown): string {
  if (value === undefined) return "nothing";
  const text = JSON.stringify(value);
  return text.length <= RECEIVED_CHARACTERS ? text : `${text.slice(0, RECEIVED_CHARACTERS)}...`;
}

/** `global.scheduler.models.minilm`, `workers[0].port`. */
export function formatPath(path: readonly (string | number)[]): string {
  return path.reduce<string>((text, step) => {
    if (typeof step === "number") return `${text}[${step}]`;
    return text === "" ? step : `${text}.${step}`;
  }, "");
}

/** All issues of a value: keys that the schema does not know, and values that it refuses. One issue a path. */
export function check(schema: v.GenericSchema, json: JsonSchema, value: unknown): Issue[] {
  const issues = unknownKeys(json, value, []);
  const seen = new Set<string>();
  for (const issue of v.safeParse(schema, value).issues ?? []) {
    const steps = (issue.path ?? []).map((item) => item.key as string | number);
    const path = formatPath(steps);
    if (seen.has(path)) continue;
    seen.add(path);
    const at = schemaAt(json, steps);
    issues.push({
      path,
      expected: at ? describe(at) : (issue.expected ?? "another value"),
      received: show(issue.input),
    });
  }
  return issues;
}

function unknownKeys(schema: JsonSchema, value: unknown, path: (string | number)[]): Issue[] {
  if (Array.isArray(value)) {
    // valibot takes a list for an object.
    if (schema.type === "object")
      return [{ path: formatPath(path), expected: describe(schema), received: show(value) }];
    return schema.items ? value.flatMap((item, index) => unknownKeys(schema.items!, item, [...path, index])) : [];
  }
  if (typeof value !== "object" || value === null || schema.type !== "object") return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const known = schemaAt(schema, [key]);
    if (known) return unknownKeys(known, inner, [...path, key]);
    return [{ path: formatPath([...path, key]), expected: `a known key${hint(schema, key)}`, received: `'${key}'` }];
  });
}

function hint(schema: JsonSchema, key: string): string {
  const known = Object.entries(schema.properties ?? {}).flatMap(([name, at]) => (at.not ? [] : [name]));
  if (schema.properties?.global?.properties?.[key]) return ` ('${key}' stands under 'global')`;
  const near = nearest(key, known);
  return near === undefined ? ` (known: ${known.join(", ")})` : ` (did you mean '${near}'?)`;
}

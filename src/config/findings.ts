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
function formatPath(path: readonly (string | number)[]): string {
  return path.reduce<string>((text, step) => {
    if (typeof step === "number") return `${text}[${step}]`;
    return text === "" ? step : `${text}.${step}`;
  }, "");
}

/** All issues of a value: keys that the schema does not know, and values that it refuses. One issue a path. */
export function check(schema: v.GenericSchema, json: JsonSchema, value: unknown): Issue[] {
  const issues = unknownKeys(json, value, [], json);
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

/** `root` is the whole file's schema, in which a key of the wrong place may have its right one. */
function unknownKeys(schema: JsonSchema, value: unknown, path: (string | number)[], root: JsonSchema): Issue[] {
  if (Array.isArray(value)) {
    // valibot takes a list for an object.
    if (schema.type === "object")
      return [{ path: formatPath(path), expected: describe(schema), received: show(value) }];
    const { items } = schema;
    return items ? value.flatMap((item, index) => unknownKeys(items, item, [...path, index], root)) : [];
  }
  if (typeof value !== "object" || value === null || schema.type !== "object") return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const known = schemaAt(schema, [key]);
    const at = [...path, key];
    if (known) return unknownKeys(known, inner, at, root);
    const elsewhere = placesOf(root, key);
    // Its right place first, else the reason why it has none.
    const right = elsewhere.find(({ schema: { not } }) => !not) ?? elsewhere[0];
    if (right?.schema.not) return [{ path: formatPath(at), expected: describe(right.schema), received: show(inner) }];
    const place = right?.parent === "" ? "at the top of the file" : `under '${right?.parent}'`;
    const why = right ? ` ('${key}' stands ${place})` : hint(schema, key);
    const issue = { path: formatPath(at), expected: `a known key${why}`, received: `'${key}'` };
    // What is below a misplaced group would be refused there too: better to hear it now.
    return right
      ? [issue, ...unknownKeys(right.schema, inner, at, root), ...removedKeys(right.schema, inner, at)]
      : [issue];
  });
}

/** Where in the file a key of this name may stand, or stood, except in the entries of `workers`. */
function placesOf(schema: JsonSchema, key: string, parent = ""): { parent: string; schema: JsonSchema }[] {
  const properties = Object.entries(schema.properties ?? {});
  const here = properties.flatMap(([name, at]) => (name === key ? [{ parent, schema: at }] : []));
  const below = properties.flatMap(([name, at]) => placesOf(at, key, parent === "" ? name : `${parent}.${name}`));
  const inMapping = schema.additionalProperties ? placesOf(schema.additionalProperties, key, `${parent}.<name>`) : [];
  return [...here, ...below, ...inMapping];
}

/** The refused keys of a group that `v.safeParse` does not get to see, since the group stands in the wrong place. */
function removedKeys(schema: JsonSchema, value: unknown, path: readonly (string | number)[]): Issue[] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const known = schemaAt(schema, [key]);
    if (!known?.not) return known ? removedKeys(known, inner, [...path, key]) : [];
    return [{ path: formatPath([...path, key]), expected: describe(known), received: show(inner) }];
  });
}

function hint(schema: JsonSchema, key: string): string {
  const known = Object.entries(schema.properties ?? {}).flatMap(([name, at]) => (at.not ? [] : [name]));
  const near = nearest(key, known);
  return near === undefined ? ` (known: ${known.join(", ")})` : ` (did you mean '${near}'?)`;
}

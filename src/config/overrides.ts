// Settings from outside the node file: XLASERVER_ variables and command-line flags, which win over the file.
//
// Both are text that the schema of their key turns into a value; nothing is guessed. A key's variable is XLASERVER_
// and its path in capitals, e.g. XLASERVER_ENDPOINTS_PORT. Used by load.ts.

import type { Issue } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { show } from "./findings.ts";
import { describe, type JsonSchema } from "./json-schema.ts";

const ENVIRONMENT_PREFIX = "XLASERVER_";
const LIST_SEPARATOR = ":";

/** One setting as text, with the name under which its user knows it: a variable or a flag. */
export interface TextSetting {
  readonly label: string;
  readonly path: readonly string[];
  /** A list of texts sets a list as it stands; one text is split at colons. */
  readonly text: string | readonly string[];
}

/** One setting as a value, to be laid over the node file's. */
export interface Override {
  readonly path: readonly string[];
  readonly value: unknown;
}

/** Every key that a text can set, by path. Mappings from names (models, flags) have none. */
export function settableKeys(schema: JsonSchema, path: readonly string[] = []): Map<string, JsonSchema> {
  const keys = new Map<string, JsonSchema>();
  for (const [name, at] of Object.entries(schema.properties ?? {})) {
    const inner = [...path, name];
    if (at.properties) for (const [key, leaf] of settableKeys(at, inner)) keys.set(key, leaf);
    else if (at.type !== "object") keys.set(inner.join("."), at);
  }
  return keys;
}

/** XLASERVER_ENDPOINTS_PORT for `endpoints.port`. */
export function variableOf(path: string): string {
  return ENVIRONMENT_PREFIX + path.replaceAll(".", "_").toUpperCase();
}

const BOOLEANS: Readonly<Record<string, boolean>> = {
  "1": true,
  true: true,
  yes: true,
  on: true,
  "0": false,
  false: false,
  no: false,
  off: false,
};

/** The value that a text means for this schema; undefined when it means none. */
function parseText(schema: JsonSchema, text: string): unknown {
  if (schema.anyOf) {
    for (const option of schema.anyOf) {
      const value = parseText(option, text);
      if (value !== undefined) return value;
    }
    return undefined;
  }
  if (schema.enum) return schema.enum.includes(text) ? text : undefined;
  if (schema.not) return undefined;
  switch (schema.type) {
    case "boolean":
      return BOOLEANS[text.toLowerCase()];
    case "string":
      return text;
    case "array":
      return text.split(LIST_SEPARATOR).filter((item) => item !== "");
    default:
      return numberOf(schema, text);
  }
}

function numberOf(schema: JsonSchema, text: string): number | undefined {
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text.trim())) return undefined;
  const value = Number(text);
  const { type, minimum = -Infinity, maximum = Infinity, exclusiveMinimum = -Infinity } = schema;
  if (type === "integer" && !Number.isInteger(value)) return undefined;
  return value >= minimum && value <= maximum && value > exclusiveMinimum ? value : undefined;
}

/** Texts to values; what their keys refuse goes into `issues`, named by label. */
export function parseSettings(schema: JsonSchema, settings: readonly TextSetting[], issues: Issue[]): Override[] {
  const keys = settableKeys(schema);
  const overrides: Override[] = [];
  for (const { label, path, text } of settings) {
    const key = keys.get(path.join("."));
    const value = key && (typeof text === "string" ? parseText(key, text) : text);
    if (value !== undefined) overrides.push({ path, value });
    else issues.push({ path: label, expected: key ? expectedText(key) : "a known setting", received: show(text) });
  }
  return overrides;
}

function expectedText(schema: JsonSchema): string {
  return schema.type === "boolean" ? "1/true/yes/on or 0/false/no/off" : describe(schema);
}

/** Variables of the environment that set a key. One that is empty sets nothing, as compose files leave them. */
export function environmentSettings(
  schema: JsonSchema,
  environment: Readonly<Record<string, string | undefined>>,
): TextSetting[] {
  const settings: TextSetting[] = [];
  for (const [path, key] of settableKeys(schema)) {
    const variable = variableOf(path);
    for (const [name, text] of Object.entries(environment)) {
      // What lay below a removed key is removed too, e.g. XLASERVER_BATCH_POLICY_MAX_SIZE.
      const sets = name === variable || (key.not && name.startsWith(`${variable}_`));
      if (text && sets) settings.push({ label: name, path: path.split("."), text });
    }
  }
  return settings;
}

/**
 * Warnings about variables that look like a misspelt setting. Not errors: Kubernetes adds variables of its own for a
 * service that is called xlaserver, e.g. XLASERVER_SERVICE_HOST.
 */
export function environmentWarnings(
  schema: JsonSchema,
  environment: Readonly<Record<string, string | undefined>>,
  alsoKnown: readonly string[],
): string[] {
  const known = [...settableKeys(schema).keys()].map(variableOf).concat(alsoKnown);
  return Object.keys(environment)
    .filter((name) => name.startsWith(ENVIRONMENT_PREFIX) && !known.includes(name))
    .flatMap((name) => {
      const near = nearest(
        name.slice(ENVIRONMENT_PREFIX.length),
        known.map((each) => each.slice(ENVIRONMENT_PREFIX.length)),
      );
      return near === undefined ? [] : [`${name} is not a setting; did you mean ${ENVIRONMENT_PREFIX}${near}?`];
    });
}

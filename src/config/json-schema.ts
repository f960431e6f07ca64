// A valibot schema as JSON Schema: what editors read, and the plain data from which the rest of config/ works.
//
// Covers exactly the parts of valibot that schema.ts uses and asserts on any other, so that a new part can't pass
// silently. `absent` keys become `{not: {}}`, which no value satisfies.

import type * as v from "valibot";
import { assert } from "../base/errors.ts";

/** The subset of JSON Schema 2020-12 that the converter writes. */
export interface JsonSchema {
  readonly $schema?: string;
  readonly title?: string;
  readonly type?: "object" | "string" | "number" | "integer" | "boolean" | "array";
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly JsonSchema[];
  readonly items?: JsonSchema;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly additionalProperties?: JsonSchema | false;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly minLength?: number;
  /** The key exists only to be refused; `description` says why. */
  readonly not?: Record<string, never>;
  /** What to add when a value is refused, e.g. which values other versions know. */
  readonly $comment?: string;
}

/** The parts of valibot's schema and action objects that are read here. */
interface Part {
  readonly kind: string;
  readonly type: string;
  readonly pipe?: readonly Part[];
  readonly wrapped?: Part;
  readonly default?: unknown;
  readonly entries?: Readonly<Record<string, Part>>;
  readonly item?: Part;
  readonly value?: Part;
  readonly literal?: unknown;
  readonly options?: readonly unknown[];
  readonly requirement?: unknown;
  readonly description?: string;
  readonly metadata?: { readonly note?: string };
}

/** The JSON Schema of a valibot schema. */
export function jsonSchemaOf(schema: v.GenericSchema): JsonSchema {
  return convert(schema as unknown as Part);
}

function convert(part: Part): JsonSchema {
  if (part.type === "optional") {
    assert(part.wrapped, "an optional schema wraps one");
    const inner = convert(part.wrapped);
    return part.default === undefined ? inner : { ...inner, default: part.default };
  }
  const [base, ...actions] = part.pipe ?? [part];
  let schema = base!.pipe ? convert(base!) : convertBase(base!);
  for (const action of actions) schema = { ...schema, ...convertAction(action) };
  return schema;
}

function convertBase(part: Part): JsonSchema {
  switch (part.type) {
    case "object":
      return {
        type: "object",
        properties: Object.fromEntries(Object.entries(part.entries ?? {}).map(([key, entry]) => [key, convert(entry)])),
        additionalProperties: false,
      };
    case "record":
      return { type: "object", additionalProperties: convert(part.value!) };
    case "array":
      return { type: "array", items: convert(part.item!) };
    case "string":
    case "number":
    case "boolean":
      return { type: part.type };
    case "picklist":
      return { enum: part.options! };
    case "literal":
      return { enum: [part.literal] };
    case "union":
      return { anyOf: (part.options as readonly Part[]).map(convert) };
    case "never":
      return { not: {} };
  }
  throw new Error(`no JSON Schema for valibot's '${part.type}'`);
}

function convertAction(part: Part): JsonSchema {
  switch (part.type) {
    case "integer":
      return { type: "integer" };
    case "min_value":
      return { minimum: part.requirement as number };
    case "max_value":
      return { maximum: part.requirement as number };
    case "gt_value":
      return { exclusiveMinimum: part.requirement as number };
    case "non_empty":
      return { minLength: 1 };
    case "description":
      return { description: part.description! };
    case "metadata":
      return part.metadata?.note === undefined ? {} : { $comment: part.metadata.note };
  }
  throw new Error(`no JSON Schema for valibot's '${part.type}'`);
}

/** The schema of the key at `path`, or undefined where the schema knows none. Array indexes are any number. */
export function schemaAt(schema: JsonSchema, path: readonly (string | number)[]): JsonSchema | undefined {
  let at: JsonSchema | undefined = schema;
  for (const step of path) {
    if (!at) return undefined;
    if (at.properties && Object.hasOwn(at.properties, step)) at = at.properties[step];
    else at = at.items ?? (at.additionalProperties || undefined);
  }
  return at;
}

/** What a value of this schema is, in words: `an integer from 0 to 65535`, `one of cpu, cuda`. */
export function describe(schema: JsonSchema): string {
  const note = schema.$comment === undefined ? "" : ` (${schema.$comment})`;
  if (schema.not) return schema.description ?? "no such key";
  if (schema.anyOf) return `${schema.anyOf.map(describe).join(" or ")}${note}`;
  if (schema.enum) {
    const values = schema.enum.map(String);
    return `${values.length === 1 ? values[0] : `one of ${values.join(", ")}`}${note}`;
  }
  switch (schema.type) {
    case "boolean":
      return "true or false";
    case "string":
      return schema.minLength === undefined ? "a string" : "a string that is not empty";
    case "array":
      return schema.items?.type === "string" ? "a list of strings" : `a list, each ${describe(schema.items!)}`;
    case "object":
      return "a mapping of keys to values";
    default:
      return `${schema.type === "integer" ? "an integer" : "a number"}${bounds(schema)}${note}`;
  }
}

function bounds({ minimum, maximum, exclusiveMinimum }: JsonSchema): string {
  const bounded = maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER;
  if (exclusiveMinimum !== undefined) return ` above ${exclusiveMinimum}${bounded ? ` and at most ${maximum}` : ""}`;
  if (minimum !== undefined) return bounded ? ` from ${minimum} to ${maximum}` : ` of at least ${minimum}`;
  return bounded ? ` of at most ${maximum}` : "";
}

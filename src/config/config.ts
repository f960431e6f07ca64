// Config: what one worker does, as frozen data. The one thing that worker/ and cli/ know of this room, with loadConfig.
//
// Its names and types are the schema's (schema.ts) in camelCase, so that a new key appears here by itself. worker/
// passes each room the part that it declares as its own options.

import type * as v from "valibot";
import { type JsonSchema, jsonSchemaOf } from "./json-schema.ts";
import { workerSchema } from "./schema.ts";

type Camel<S> = S extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<Camel<Tail> & string>}` : S;

/** Keys in camelCase, deeply; keys that are only there to be refused are left out, keys of mappings stay. */
type CamelKeys<T> = T extends readonly (infer Item)[]
  ? readonly CamelKeys<Item>[]
  : T extends object
    ? string extends keyof T
      ? { readonly [K in keyof T]: CamelKeys<T[K]> }
      : { readonly [K in keyof T as [T[K]] extends [undefined] ? never : Camel<K>]: CamelKeys<T[K]> }
    : T;

type Parsed = CamelKeys<v.InferOutput<typeof workerSchema>>;

export type Config = Omit<Parsed, "runtime" | "hooks"> & {
  /** The worker's name in logs and metrics. */
  readonly name: string;
  readonly runtime: Omit<Parsed["runtime"], "backend"> & { readonly backend: "cpu" | "cuda" };
  readonly hooks: Omit<Parsed["hooks"], "threads"> & { readonly threads: number };
};

/** Settings of a single model, under `scheduler.models`. */
export type ModelPolicy = Config["scheduler"]["models"][string];

/** Renames the keys that the schema knows; keys of mappings (model names, XLA flags) are their user's. */
export function camelise(schema: JsonSchema, value: unknown): unknown {
  if (Array.isArray(value) || typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, inner]) => {
    const known = schema.properties?.[key];
    const name = known ? key.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()) : key;
    return [name, camelise(known ?? (schema.additionalProperties || {}), inner)];
  });
  return Object.fromEntries(entries);
}

/** The settings as a node file spells them under `global`, with the worker's name: camelise, backwards. */
export function inNodeFileKeys(config: Config): Record<string, unknown> {
  return snakeKeys(jsonSchemaOf(workerSchema), config) as Record<string, unknown>;
}

function snakeKeys(schema: JsonSchema, value: unknown): unknown {
  if (Array.isArray(value) || typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, inner]) => {
    const spelt = key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    const known = schema.properties?.[spelt];
    return [known ? spelt : key, snakeKeys(known ?? (schema.additionalProperties || {}), inner)];
  });
  return Object.fromEntries(entries);
}

export function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null) {
    for (const inner of Object.values(value)) deepFreeze(inner);
    Object.freeze(value);
  }
  return value;
}

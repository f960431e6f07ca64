// A value of a manifest with the place where it stands, and the checks that every rule is made of.
//
// A check returns the value with its type, or files one Issue and returns undefined, so that a parser goes on and finds
// the rest. A key without a value (`client_inputs:`) counts as absent. Used by the parsers of this room.

import type { Issue } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";

const SHOWN_CHARACTERS = 60;
/** Looking for the nearest known key takes microseconds; a hostile mapping has a hundred thousand keys. */
const UNKNOWN_KEYS_SHOWN = 20;

/** A value in words, as messages show what was received. */
export function show(value: unknown): string {
  if (value === undefined || value === null) return "nothing";
  if (typeof value === "string") return `'${cut(value)}'`;
  if (Array.isArray(value)) return value.length === 0 ? "an empty list" : `a list of ${value.length}`;
  if (typeof value === "object") return "a mapping";
  return String(value);
}

/** Text from a file, short enough for a message. */
export function cut(text: string): string {
  return text.length <= SHOWN_CHARACTERS ? text : `${text.slice(0, SHOWN_CHARACTERS)}...`;
}

/** `did you mean 'x'?` where a known word is near, else all of them. */
export function hint(word: string, known: readonly string[]): string {
  const near = nearest(cut(word), known);
  return near === undefined ? `known: ${known.join(", ")}` : `did you mean '${near}'?`;
}

export class Field {
  constructor(
    readonly value: unknown,
    /** As in `executable_inputs[0].dims.t`; "" for the file as a whole. */
    readonly path: string,
    private readonly issues: Issue[],
  ) {}

  get present(): boolean {
    return this.value !== undefined && this.value !== null;
  }

  /** Files an issue of this field. */
  refuse(expected: string, received = show(this.value)): undefined {
    this.issues.push({ path: this.path, expected, received });
  }

  /** The field under a key of this mapping; absent when this is not a mapping or has no such key. */
  get(key: string): Field {
    const { value } = this;
    const inner = isMapping(value) && Object.hasOwn(value, key) ? value[key] : undefined;
    return new Field(inner, this.pathOf(key), this.issues);
  }

  /** The path of a key below this field: `.key`, or `["a key"]` where it is no plain word. */
  private pathOf(key: string): string {
    if (!/^\w+$/.test(key)) return `${this.path}["${cut(key)}"]`;
    return this.path === "" ? key : `${this.path}.${key}`;
  }

  mapping(expected: string): Readonly<Record<string, unknown>> | undefined {
    return isMapping(this.value) ? this.value : this.refuse(expected);
  }

  /** The items of a list, each as a field. */
  list(expected: string): Field[] | undefined {
    if (!Array.isArray(this.value)) return this.refuse(expected);
    return this.value.map((item, index) => new Field(item, `${this.path}[${index}]`, this.issues));
  }

  string(expected: string): string | undefined {
    return typeof this.value === "string" ? this.value : this.refuse(expected);
  }

  boolean(): boolean | undefined {
    return typeof this.value === "boolean" ? this.value : this.refuse("true or false");
  }

  /** A whole number of [min, max]. */
  integer(min: number, max: number, what = "a whole number"): number | undefined {
    const { value } = this;
    if (Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max) return value as number;
    return this.refuse(max === Number.MAX_SAFE_INTEGER ? `${what} >= ${min}` : `${what} from ${min} to ${max}`);
  }

  /** Refuses every key of this mapping that is not among `known`. */
  onlyKeys(known: readonly string[]): void {
    if (!isMapping(this.value)) return;
    const unknown = Object.keys(this.value).filter((key) => !known.includes(key));
    for (const key of unknown.slice(0, UNKNOWN_KEYS_SHOWN)) {
      this.get(key).refuse(`a known key (${hint(key, known)})`, `'${cut(key)}'`);
    }
    const more = unknown.length - UNKNOWN_KEYS_SHOWN;
    if (more > 0) this.refuse("known keys", `${more} more unknown ones`);
  }
}

function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

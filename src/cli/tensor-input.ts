// `--input name=value|@file`: what a person writes, made the tensor that the model's metadata asks for.
//
// A value is JSON (scalars and nested lists), for BYTES also plain text; a file is .json, .npy or raw elements. Axes
// that are missing in front become 1, so that one row can be written as a row. Used by infer.ts.

import { extname } from "node:path";
import { messageOf } from "../base/errors.ts";
import { readBytes } from "../base/files.ts";
import { didYouMean } from "../base/nearest.ts";
import { type Dtype, sizeOf, wireName } from "../tensor/dtype.ts";
import { elementCount, formatShape } from "../tensor/shape.ts";
import { encodeStrings } from "../tensor/strings.ts";
import { UsageError } from "./arguments.ts";
import { encodeElements, NumberText, type Scalar, showScalar } from "./element-codec.ts";
import { parseNpy } from "./npy.ts";

/** A tensor of a model as its metadata has it: -1 where any extent is accepted. */
export interface TensorInfo {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
}

/** A tensor with its bytes as the wire has them. */
export interface TensorValue extends TensorInfo {
  readonly bytes: Uint8Array;
}

/** The tensors of all `--input` texts. Errors: UsageError for unknown and missing inputs, and values that do not fit. */
export async function readInputs(texts: readonly string[], infos: readonly TensorInfo[]): Promise<TensorValue[]> {
  const values: TensorValue[] = [];
  for (const text of texts) {
    const [, name, value] = /^([^=]+)=(.*)$/s.exec(text) ?? [];
    if (name === undefined || value === undefined)
      throw new UsageError(`--input '${text}': expected name=value or name=@file`);
    const names = infos.map((info) => info.name);
    const info = infos.find((candidate) => candidate.name === name);
    if (!info)
      throw new UsageError(
        `the model has no input '${name}'${didYouMean(name, names) || `: it has ${names.join(", ")}`}`,
      );
    if (values.some((other) => other.name === name)) throw new UsageError(`input '${name}' is given twice`);
    values.push(await readInput(info, value));
  }
  const missing = infos.filter(({ name }) => !values.some((value) => value.name === name));
  if (missing.length > 0) throw new UsageError(`missing --input for ${missing.map(describeInfo).join(", ")}`);
  return values;
}

/** `texts (BYTES [-1])`. */
function describeInfo({ name, dtype, shape }: TensorInfo): string {
  return `${name} (${wireName(dtype) ?? dtype} ${formatShape(shape)})`;
}

async function readInput(info: TensorInfo, value: string): Promise<TensorValue> {
  try {
    if (!value.startsWith("@")) return fromText(info, value);
    const path = value.slice(1);
    const file = await readBytes(path);
    const extension = extname(path);
    if (extension === ".json") return fromText(info, new TextDecoder().decode(file));
    return extension === ".npy" ? fromNpy(info, file) : fromRaw(info, file);
  } catch (thrown) {
    throw new UsageError(`input ${describeInfo(info)}: ${messageOf(thrown)}`);
  }
}

function fromText(info: TensorInfo, text: string): TensorValue {
  const { shape, scalars } = flatten(parseScalars(info.dtype, text));
  const bytes = info.dtype === "bytes" ? encodeStrings(scalars.map(toBytes)) : encodeElements(info.dtype, scalars);
  return { ...info, shape: fitRank(info, shape), bytes };
}

type Nested = Scalar | readonly Nested[];

/** JSON with numbers as text; for BYTES, whatever is not JSON of strings is one string as it stands. */
function parseScalars(dtype: Dtype, text: string): Nested {
  const keepNumbers = (_key: string, value: unknown, context: { source?: string }) =>
    typeof value === "number" ? new NumberText(context.source ?? String(value)) : value;
  try {
    const value = JSON.parse(text, keepNumbers as (key: string, value: unknown) => unknown) as Nested;
    if (dtype !== "bytes" || typeof value === "string" || Array.isArray(value)) return value;
  } catch (thrown) {
    // What begins as a list was meant as one.
    if (dtype !== "bytes" || text.trimStart().startsWith("[")) throw new RangeError(`not JSON: ${messageOf(thrown)}`);
  }
  return text;
}

/** The shape of nested lists and their scalars in order. Throws RangeError for lists of unequal lengths. */
function flatten(value: Nested): { shape: number[]; scalars: Scalar[] } {
  if (!Array.isArray(value)) {
    if (value === null || (typeof value === "object" && !(value instanceof NumberText))) {
      throw new RangeError(`expected values or lists of them, received ${JSON.stringify(value)}`);
    }
    return { shape: [], scalars: [value as Scalar] };
  }
  const parts = (value as readonly Nested[]).map(flatten);
  const [first] = parts;
  for (const [index, { shape }] of parts.entries()) {
    if (formatShape(shape) === formatShape(first!.shape)) continue;
    throw new RangeError(
      `lists of unequal lengths: ${formatShape(first!.shape)} and, at ${index}, ${formatShape(shape)}`,
    );
  }
  return { shape: [parts.length, ...(first?.shape ?? [])], scalars: parts.flatMap(({ scalars }) => scalars) };
}

function toBytes(scalar: Scalar): Uint8Array {
  if (typeof scalar !== "string") throw new RangeError(`expected strings, received ${showScalar(scalar)}`);
  return new TextEncoder().encode(scalar);
}

/** The shape with axes of extent 1 put in front until it has the model's rank. */
function fitRank({ shape: wanted }: TensorInfo, shape: readonly number[]): number[] {
  const missing = wanted.length - shape.length;
  const canBeOne = wanted.slice(0, Math.max(missing, 0)).every((extent) => extent === -1 || extent === 1);
  if (missing < 0 || !canBeOne) {
    const received = shape.length === 0 ? "a scalar" : formatShape(shape);
    throw new RangeError(`expected ${formatShape(wanted)}, received ${received}`);
  }
  return [...new Array<number>(missing).fill(1), ...shape];
}

function fromNpy(info: TensorInfo, file: Uint8Array): TensorValue {
  const { dtype, shape, bytes } = parseNpy(file);
  // NumPy has no bfloat16: such arrays travel as their bits.
  const same = dtype === info.dtype || (dtype === "u16" && info.dtype === "bf16");
  if (!same) throw new RangeError(`the file holds ${wireName(dtype)}`);
  return { ...info, shape: fitRank(info, shape), bytes };
}

/** Raw elements fill at most one free axis; a raw file for BYTES is one string. */
function fromRaw(info: TensorInfo, file: Uint8Array): TensorValue {
  const { dtype, shape } = info;
  if (dtype === "bytes") return { ...info, shape: fitRank(info, []), bytes: encodeStrings([file]) };
  const free = shape.flatMap((extent, axis) => (extent === -1 ? [axis] : []));
  const rest = (elementCount(shape.map((extent) => (extent === -1 ? 1 : extent))) ?? 0) * sizeOf(dtype);
  const extent = file.byteLength / rest;
  const fits = free.length === 0 ? extent === 1 : free.length === 1 && Number.isInteger(extent);
  if (!fits) {
    throw new RangeError(
      `${file.byteLength} raw bytes do not say which shape is meant: give the tensor as .npy or .json`,
    );
  }
  return { ...info, shape: shape.map((each) => (each === -1 ? extent : each)), bytes: file };
}

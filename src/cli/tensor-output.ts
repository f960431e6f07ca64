// Tensors that came back, as JSON (all values, flat, as KServe's REST protocol has them) and as a line for a person.
//
// Used by infer.ts.

import { Chunks } from "../tensor/byte-source.ts";
import { wireName } from "../tensor/dtype.ts";
import { elementCount, formatShape } from "../tensor/shape.ts";
import { decodeStrings } from "../tensor/strings.ts";
import { decodeElements } from "./element-codec.ts";
import type { TensorValue } from "./tensor-input.ts";

/** A JSON value for one element. What JSON has no number for is a string: NaN, Infinity, integers beyond 2^53. */
type JsonElement = boolean | number | string;

export interface JsonTensor {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly data: readonly JsonElement[];
}

export function tensorToJson(tensor: TensorValue): JsonTensor {
  const { name, dtype, shape } = tensor;
  return { name, datatype: wireName(dtype) ?? dtype, shape, data: elements(tensor) };
}

function elements({ dtype, shape, bytes }: TensorValue): JsonElement[] {
  if (dtype === "bytes") {
    return decodeStrings(Chunks.of(bytes), elementCount(shape) ?? 0).map(text);
  }
  return decodeElements(dtype, bytes).map((value) => {
    if (typeof value === "bigint") {
      const number = Number(value);
      return Number.isSafeInteger(number) ? number : String(value);
    }
    if (typeof value === "boolean" || Number.isFinite(value)) return dtype === "f32" ? shorten(value) : value;
    return String(value);
  });
}

/** The shortest decimal that is the same f32: 0.1 instead of 0.10000000149011612. */
function shorten(value: number | boolean): number | boolean {
  if (typeof value === "boolean") return value;
  for (let digits = 6; digits <= 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return short;
  }
  return value;
}

/** UTF-8 as text, other bytes in base64 with a mark. */
function text(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return `base64:${Buffer.from(bytes).toString("base64")}`;
  }
}

const PREVIEW_ELEMENTS = 8;

/** Name, type, shape and the first values, for a table. */
export function tensorToRow(tensor: TensorValue): string[] {
  const { name, datatype, shape, data } = tensorToJson(tensor);
  const shown = data
    .slice(0, PREVIEW_ELEMENTS)
    .map((value) => (typeof value === "string" ? JSON.stringify(value) : value));
  const more = data.length > PREVIEW_ELEMENTS ? `, ... (${data.length} values)` : "";
  return [name, datatype, formatShape(shape), `${shown.join(", ")}${more}`];
}

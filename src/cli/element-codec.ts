// Elements of tensors as a person writes them and JSON shows them: a reader and a writer for each dtype.
//
// Integers are checked against their range; floats are rounded to the nearest of their type, as any literal is.
// Used by tensor-input.ts (text to bytes) and tensor-output.ts (bytes to values).

import { type Dtype, sizeOf } from "../tensor/dtype.ts";

/** A JSON scalar; a number as its source text, so that 64-bit integers keep every digit. */
export type Scalar = string | boolean | NumberText;

/** A number as it was written. */
export class NumberText {
  constructor(readonly text: string) {}

  toJSON(): number {
    return Number(this.text);
  }
}

/** A scalar as it was written, for messages. */
export function showScalar(scalar: Scalar): string {
  return scalar instanceof NumberText ? scalar.text : JSON.stringify(scalar);
}

type FixedDtype = Exclude<Dtype, "bytes">;

interface Codec {
  /** What an element is, for messages. */
  readonly expected: string;
  /** Writes a scalar at a byte offset; false when it is no such element. */
  write(view: DataView, offset: number, scalar: Scalar): boolean;
  read(view: DataView, offset: number): boolean | number | bigint;
}

function integer(bits: 8 | 16 | 32 | 64, signed: boolean): Codec {
  const min = signed ? -(2n ** BigInt(bits - 1)) : 0n;
  const max = 2n ** BigInt(signed ? bits - 1 : bits) - 1n;
  return {
    expected: `an integer from ${min} to ${max}`,
    write(view, offset, scalar) {
      if (!(scalar instanceof NumberText) || !/^-?\d+$/.test(scalar.text)) return false;
      const value = BigInt(scalar.text);
      if (value < min || value > max) return false;
      // Two's complement: the low bits are the same for signed and unsigned.
      for (let byte = 0; byte < bits / 8; byte++)
        view.setUint8(offset + byte, Number((value >> BigInt(8 * byte)) & 255n));
      return true;
    },
    read(view, offset) {
      if (bits === 64) return signed ? view.getBigInt64(offset, true) : view.getBigUint64(offset, true);
      if (bits === 32) return signed ? view.getInt32(offset, true) : view.getUint32(offset, true);
      if (bits === 16) return signed ? view.getInt16(offset, true) : view.getUint16(offset, true);
      return signed ? view.getInt8(offset) : view.getUint8(offset);
    },
  };
}

const SPECIAL_FLOATS: Readonly<Record<string, number>> = { NaN, Infinity, "-Infinity": -Infinity };

function float(put: (view: DataView, offset: number, value: number) => void, read: Codec["read"]): Codec {
  return {
    expected: 'a number (or "NaN", "Infinity", "-Infinity")',
    write(view, offset, scalar) {
      const value = scalar instanceof NumberText ? Number(scalar.text) : SPECIAL_FLOATS[String(scalar)];
      if (value === undefined) return false;
      put(view, offset, value);
      return true;
    },
    read,
  };
}

const boolean: Codec = {
  expected: "true or false",
  write(view, offset, scalar) {
    if (typeof scalar !== "boolean") return false;
    view.setUint8(offset, scalar ? 1 : 0);
    return true;
  },
  read: (view, offset) => view.getUint8(offset) !== 0,
};

const scratch = new DataView(new ArrayBuffer(4));

/** The upper half of the nearest f32, ties to even; NaN stays NaN. */
function bfloat16Bits(value: number): number {
  if (Number.isNaN(value)) return 0x7fc0;
  scratch.setFloat32(0, value);
  const bits = scratch.getUint32(0);
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) / 0x10000) & 0xffff;
}

function bfloat16Value(bits: number): number {
  scratch.setUint32(0, bits * 0x10000);
  return scratch.getFloat32(0);
}

/** KServe gives clients no 8-bit floats, so there are no rows for them. */
const CODECS: Readonly<Partial<Record<FixedDtype, Codec>>> = {
  bool: boolean,
  i8: integer(8, true),
  i16: integer(16, true),
  i32: integer(32, true),
  i64: integer(64, true),
  u8: integer(8, false),
  u16: integer(16, false),
  u32: integer(32, false),
  u64: integer(64, false),
  f16: float(
    (view, offset, value) => view.setFloat16(offset, value, true),
    (view, offset) => view.getFloat16(offset, true),
  ),
  f32: float(
    (view, offset, value) => view.setFloat32(offset, value, true),
    (view, offset) => view.getFloat32(offset, true),
  ),
  f64: float(
    (view, offset, value) => view.setFloat64(offset, value, true),
    (view, offset) => view.getFloat64(offset, true),
  ),
  bf16: float(
    (view, offset, value) => view.setUint16(offset, bfloat16Bits(value), true),
    (view, offset) => bfloat16Value(view.getUint16(offset, true)),
  ),
};

function codecOf(dtype: Dtype): Codec {
  const codec = CODECS[dtype as FixedDtype];
  if (!codec) throw new Error(`dtype '${dtype}' has no text form`);
  return codec;
}

/** The scalars as little-endian elements. Throws RangeError that names the first that is no such element. */
export function encodeElements(dtype: Dtype, scalars: readonly Scalar[]): Uint8Array {
  const codec = codecOf(dtype);
  const size = sizeOf(dtype);
  const bytes = new Uint8Array(scalars.length * size);
  const view = new DataView(bytes.buffer);
  scalars.forEach((scalar, index) => {
    if (codec.write(view, index * size, scalar)) return;
    throw new RangeError(`element ${index}: expected ${codec.expected}, received ${showScalar(scalar)}`);
  });
  return bytes;
}

/** The elements of a dense tensor, in order. `bytes` holds whole elements. */
export function decodeElements(dtype: Dtype, bytes: Uint8Array): (boolean | number | bigint)[] {
  const codec = codecOf(dtype);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const size = sizeOf(dtype);
  return Array.from({ length: bytes.byteLength / size }, (_, index) => codec.read(view, index * size));
}

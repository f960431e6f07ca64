// Typed contents become the bytes that a raw tensor would have, for every dtype and encoding; lists that lie are refused.

import { expect, test } from "bun:test";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { randomBytes, randomPieces, repeated } from "../../tests/support/infer-messages.ts";
import { Rng } from "../../tests/support/rng.ts";
import { ServerError } from "../base/errors.ts";
import { TYPED_TENSOR_BYTES_MAX } from "../base/limits.ts";
import { Chunks } from "../tensor/byte-source.ts";
import { type Dtype, sizeOf } from "../tensor/dtype.ts";
import { encodeStrings } from "../tensor/strings.ts";
import { typedToRaw } from "./typed-contents.ts";

interface Row {
  readonly number: number;
  readonly wireType: WireType;
  /** Writes an element to the list, and to the raw bytes. */
  readonly write: (writer: BinaryWriter, view: DataView, at: number, rng: Rng) => void;
}

const pickLong = (rng: Rng) =>
  rng.pick([0n, 1n, -1n, 127n, 128n, 2n ** 63n - 1n, -(2n ** 63n), BigInt(rng.below(2 ** 32))]);

const ROWS: Partial<Record<Dtype, Row>> = {
  bool: {
    number: 1,
    wireType: WireType.Varint,
    write: (writer, view, at, rng) => {
      const value = rng.chance(0.5);
      writer.bool(value);
      view.setUint8(at, value ? 1 : 0);
    },
  },
  i8: integer(2, (rng) => rng.below(256) - 128, "setInt8"),
  i16: integer(2, (rng) => rng.below(65536) - 32768, "setInt16"),
  i32: integer(2, (rng) => rng.below(2 ** 32) | 0, "setInt32"),
  u8: integer(4, (rng) => rng.below(256), "setUint8"),
  u16: integer(4, (rng) => rng.below(65536), "setUint16"),
  u32: integer(4, (rng) => rng.below(2 ** 32), "setUint32"),
  i64: {
    number: 3,
    wireType: WireType.Varint,
    write: (writer, view, at, rng) => {
      const value = pickLong(rng);
      writer.int64(value);
      view.setBigInt64(at, value, true);
    },
  },
  u64: {
    number: 5,
    wireType: WireType.Varint,
    write: (writer, view, at, rng) => {
      const value = BigInt.asUintN(64, pickLong(rng));
      writer.uint64(value);
      view.setBigUint64(at, value, true);
    },
  },
  f32: {
    number: 6,
    wireType: WireType.Bit32,
    write: (writer, view, at, rng) => {
      const value = rng.pick([0, -0, rng.next(), Infinity, Number.NaN]);
      writer.float(value);
      view.setFloat32(at, value, true);
    },
  },
  f64: {
    number: 7,
    wireType: WireType.Bit64,
    write: (writer, view, at, rng) => {
      const value = rng.pick([0, -0, rng.next(), -Infinity]);
      writer.double(value);
      view.setFloat64(at, value, true);
    },
  },
};

function integer(
  number: number,
  make: (rng: Rng) => number,
  set: "setInt8" | "setInt16" | "setInt32" | "setUint8" | "setUint16" | "setUint32",
): Row {
  return {
    number,
    wireType: WireType.Varint,
    write: (writer, view, at, rng) => {
      const value = make(rng);
      if (number === 2) writer.int32(value);
      else writer.uint32(value);
      view[set](at, value, true);
    },
  };
}

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");

/** A list of `count` random elements, encoded, and the raw bytes it stands for. */
function encode(rng: Rng, dtype: Dtype, count: number, packing: "any" | "packed" | "unpacked") {
  const row = ROWS[dtype]!;
  const raw = new Uint8Array(count * sizeOf(dtype));
  const view = new DataView(raw.buffer);
  const elements = Array.from({ length: count }, (_, index) => (writer: BinaryWriter) => {
    row.write(writer, view, index * sizeOf(dtype), rng);
  });
  const writer = new BinaryWriter();
  for (const field of repeated(rng, row.number, row.wireType, elements, packing)) field(writer);
  return { encoded: writer.finish(), raw };
}

test.each(Object.keys(ROWS) as Dtype[])("%s lists in any encoding, pieces and message parts", (dtype) => {
  const seed = Number(process.env.SEED ?? 7);
  const rng = new Rng(seed);
  for (let index = 0; index < 150; index++) {
    const count = rng.below(20);
    const packing = rng.pick(["any", "packed", "unpacked"] as const);
    const first = encode(rng, dtype, count, packing);
    const second = encode(rng, dtype, rng.below(3), packing);
    const parts = [first, second].map(({ encoded }) => Chunks.from(randomPieces(rng, encoded)));
    const total = (first.raw.length + second.raw.length) / sizeOf(dtype);
    const bytes = typedToRaw(parts, dtype, total, "x").contiguous();
    expect(hex(bytes), `SEED=${seed}, round ${index}`).toBe(hex(first.raw) + hex(second.raw));
  }
});

test("one packed list of floats stays where it is", () => {
  const { encoded } = encode(new Rng(1), "f32", 100, "packed");
  const bytes = typedToRaw([Chunks.of(encoded)], "f32", 100, "x").chunks;
  expect(bytes.length).toBe(1);
  expect(bytes[0]!.buffer).toBe(encoded.buffer);
});

test("BYTES elements gain their length prefixes", () => {
  const strings = ["", "é", "x".repeat(300)].map((text) => new TextEncoder().encode(text));
  const writer = new BinaryWriter();
  for (const string of strings) writer.tag(8, WireType.LengthDelimited).bytes(string);
  const pieces = randomPieces(new Rng(3), writer.finish());
  expect(hex(typedToRaw([Chunks.from(pieces)], "bytes", 3, "x").contiguous())).toBe(hex(encodeStrings(strings)));
});

function refusal(dtype: Dtype, count: number, encoded: readonly number[]): string {
  try {
    typedToRaw([Chunks.of(Uint8Array.from(encoded))], dtype, count, "input 'x'");
    return "accepted";
  } catch (thrown) {
    return thrown instanceof ServerError ? `${thrown.code} ${thrown.message}` : `${thrown}`;
  }
}

test.each<[string, Dtype, number, number[], string]>([
  [
    "more in a packed list",
    "i32",
    2,
    [0x12, 3, 1, 2, 3],
    "INVALID_ARGUMENT input 'x': its shape has 2 elements, int_contents holds more",
  ],
  ["fewer", "i32", 3, [0x12, 2, 1, 2], "INVALID_ARGUMENT input 'x': its shape has 3 elements, int_contents holds 2"],
  [
    "more",
    "bool",
    1,
    [0x0a, 2, 1, 0],
    "INVALID_ARGUMENT input 'x': its shape has 1 elements, bool_contents holds more",
  ],
  [
    "a shape that lies",
    "i64",
    2 ** 50,
    [0x1a, 1, 1],
    `INVALID_ARGUMENT input 'x': its shape has ${2 ** 50} elements, int64_contents holds fewer`,
  ],
  [
    "fewer floats",
    "f32",
    2,
    [0x35, 0, 0, 0, 0],
    "INVALID_ARGUMENT input 'x': its shape has 2 elements, fp32_contents holds 1",
  ],
  [
    "more floats",
    "f64",
    1,
    [0x3a, 16, ...new Array(16).fill(0)],
    "INVALID_ARGUMENT input 'x': its shape has 1 elements, fp64_contents holds more",
  ],
  [
    "fewer strings",
    "bytes",
    2,
    [0x42, 0],
    "INVALID_ARGUMENT input 'x': its shape has 2 elements, bytes_contents holds 1",
  ],
  [
    "more strings",
    "bytes",
    1,
    [0x42, 0, 0x42, 0],
    "INVALID_ARGUMENT input 'x': its shape has 1 elements, bytes_contents holds more",
  ],
  [
    "another list",
    "f32",
    2,
    [0x12, 2, 1, 2],
    "INVALID_ARGUMENT input 'x': it is given in int_contents, its datatype's elements belong in fp32_contents",
  ],
  [
    "another list beside",
    "u8",
    1,
    [0x20, 1, 0x42, 0],
    "INVALID_ARGUMENT input 'x': it is given in bytes_contents, its datatype's elements belong in uint_contents",
  ],
  ["an empty other list", "u8", 1, [0x20, 1, 0x12, 0], "accepted"],
  ["unknown fields", "u8", 1, [0x20, 1, 0x48, 1], "accepted"],
  [
    "a small integer that is too large",
    "i8",
    1,
    [0x10, 0x80, 1],
    "INVALID_ARGUMENT input 'x': element 0 is 128, beyond INT8",
  ],
  [
    "a small negative",
    "u16",
    1,
    [0x20, 0xff, 0xff, 0xff, 0xff, 0x0f],
    "INVALID_ARGUMENT input 'x': element 0 is 4294967295, beyond UINT16",
  ],
  [
    "FP16",
    "f16",
    1,
    [0x35, 0, 0, 0, 0],
    "INVALID_ARGUMENT input 'x': FP16 has no typed contents, send it in raw_input_contents",
  ],
  [
    "BF16",
    "bf16",
    1,
    [0x35, 0, 0, 0, 0],
    "INVALID_ARGUMENT input 'x': BF16 has no typed contents, send it in raw_input_contents",
  ],
  [
    "half a float",
    "f32",
    1,
    [0x32, 3, 0, 0, 0],
    "INVALID_ARGUMENT malformed protobuf: InferTensorContents, field fp32_contents (6) at byte 0: 3 bytes, expected a multiple of 4",
  ],
  [
    "a cut float",
    "f32",
    1,
    [0x35, 0, 0],
    "INVALID_ARGUMENT malformed protobuf: InferTensorContents, field fp32_contents (6) at byte 0: the value runs past the end of its message",
  ],
  [
    "a float list in varints",
    "f32",
    1,
    [0x30, 0],
    "INVALID_ARGUMENT malformed protobuf: InferTensorContents, field fp32_contents (6) at byte 0: wire type 0 is not this field's",
  ],
  [
    "a cut list",
    "i32",
    2,
    [0x12, 3, 1, 2],
    "INVALID_ARGUMENT malformed protobuf: InferTensorContents, field int_contents (2) at byte 0: a length of 3 bytes, 2 are left in its message",
  ],
])("%s", (_name, dtype, count, encoded, message) => {
  expect(refusal(dtype, count, encoded)).toBe(message);
});

test("a tensor too large to be decoded one by one must come raw", () => {
  const count = TYPED_TENSOR_BYTES_MAX / 8 + 1;
  const encoded = new Uint8Array(count + 5);
  encoded.set([0x1a, ...varint(count)]);
  expect(() => typedToRaw([Chunks.of(encoded)], "i64", count, "x")).toThrow("send it in raw_input_contents");
  const fewer = new Uint8Array(count + 4);
  fewer.set([0x1a, ...varint(count - 1)]);
  expect(typedToRaw([Chunks.of(fewer)], "i64", count - 1, "x").byteLength).toBe(TYPED_TENSOR_BYTES_MAX);
});

const varint = (value: number) => new BinaryWriter().uint32(value).finish();

test("random bytes are refused or read, never anything else", () => {
  const seed = Number(process.env.SEED ?? 11);
  const rng = new Rng(seed);
  const dtypes = [...Object.keys(ROWS), "bytes"] as Dtype[];
  for (let index = 0; index < 3000; index++) {
    const dtype = rng.pick(dtypes);
    const bytes =
      dtype === "bytes" || rng.chance(0.5) ? randomBytes(rng, rng.below(30)) : encode(rng, dtype, 5, "any").encoded;
    if (bytes.length > 0) bytes[rng.below(bytes.length)] = rng.below(256);
    const outcome = refusal(dtype, rng.below(6), [...bytes]);
    expect(outcome, `SEED=${seed}, round ${index}`).toMatch(/^(accepted|INVALID_ARGUMENT )/);
  }
});

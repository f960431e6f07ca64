// Random ModelInferRequests as bytes, encoded in every way that protobuf allows: fields in any order, repeated numbers
// packed, unpacked or both, scalars given twice, messages in several pieces, unknown fields in between.
//
// The generated codec says what they mean. Used by the tests of wire/.

import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import type { Rng } from "./rng.ts";

const NAMES = ["INPUT0", "OUTPUT0", "", "x", "größe", "名前", "\ufeffbom", "a".repeat(300), "🦊"];
const DATATYPES = ["FP32", "INT64", "BYTES", "BF16", "nonsense", ""];
const INTEGERS = [
  0n,
  1n,
  16n,
  127n,
  128n,
  300n,
  2n ** 31n,
  2n ** 40n,
  2n ** 53n - 1n,
  2n ** 63n - 1n,
  -1n,
  -(2n ** 63n),
];

type Field = (writer: BinaryWriter) => void;

/** An encoded message: the fields in `lists` keep their order within a list, and lists are interleaved at random. */
function interleave(rng: Rng, lists: readonly (readonly Field[])[]): Uint8Array {
  const writer = new BinaryWriter();
  const queues = lists.map((list) => [...list]).filter((list) => list.length > 0);
  while (queues.length > 0) {
    if (rng.chance(0.1)) unknownField(rng)(writer);
    const queue = rng.pick(queues);
    queue.shift()!(writer);
    if (queue.length === 0) queues.splice(queues.indexOf(queue), 1);
  }
  if (rng.chance(0.1)) unknownField(rng)(writer);
  return writer.finish();
}

function unknownField(rng: Rng): Field {
  const number = rng.pick([9, 15, 16, 1000, 2 ** 29 - 1]);
  return rng.pick<Field>([
    (writer) => writer.tag(number, WireType.Varint).uint64(rng.pick(INTEGERS) & (2n ** 64n - 1n)),
    (writer) => writer.tag(number, WireType.Bit64).double(rng.next()),
    (writer) => writer.tag(number, WireType.Bit32).float(rng.next()),
    (writer) => writer.tag(number, WireType.LengthDelimited).bytes(randomBytes(rng, rng.below(20))),
    (writer) => {
      writer.tag(number, WireType.StartGroup).tag(3, WireType.Varint).int32(rng.below(9));
      if (rng.chance(0.5)) writer.tag(number, WireType.StartGroup).tag(number, WireType.EndGroup);
      writer.tag(number, WireType.EndGroup);
    },
  ]);
}

function text(number: number, value: string): Field {
  return (writer) => writer.tag(number, WireType.LengthDelimited).string(value);
}

function bytes(number: number, value: Uint8Array): Field {
  return (writer) => writer.tag(number, WireType.LengthDelimited).bytes(value);
}

function some<T>(rng: Rng, max: number, make: () => T): T[] {
  return Array.from({ length: rng.below(max + 1) }, make);
}

/** Elements of a repeated number, in packed runs and single elements. */
export function repeated(
  rng: Rng,
  number: number,
  wireType: WireType,
  elements: readonly Field[],
  packing: "any" | "packed" | "unpacked" = "any",
): Field[] {
  const fields: Field[] = [];
  for (let index = 0; index < elements.length; ) {
    const packed = packing === "packed" || (packing === "any" && rng.chance(0.5));
    const run = packing === "packed" ? elements.length : packed ? rng.below(elements.length - index + 1) : 1;
    const part = elements.slice(index, index + run);
    fields.push((writer) => {
      if (!packed) {
        writer.tag(number, wireType);
        part[0]!(writer);
        return;
      }
      writer.tag(number, WireType.LengthDelimited).fork();
      for (const element of part) element(writer);
      writer.join();
    });
    index += run;
  }
  return fields;
}

function parameters(rng: Rng, number: number): Field[] {
  return some(rng, 3, () => {
    const value = rng.pick<Field[]>([
      [(writer) => writer.tag(1, WireType.Varint).bool(rng.chance(0.5))],
      [(writer) => writer.tag(2, WireType.Varint).int64(rng.pick(INTEGERS))],
      [text(3, rng.pick(NAMES))],
      [(writer) => writer.tag(4, WireType.Bit64).double(rng.pick([0, -0, 1.5, Number.NaN, Infinity]))],
      [(writer) => writer.tag(5, WireType.Varint).uint64(rng.pick(INTEGERS) & (2n ** 64n - 1n))],
      [text(3, "first"), (writer) => writer.tag(1, WireType.Varint).bool(true)],
    ]);
    // One list, so that the choice given last stays last.
    const choice = interleave(rng, [value]);
    return bytes(number, interleave(rng, [rng.chance(0.9) ? [text(1, rng.pick(NAMES))] : [], [bytes(2, choice)]]));
  });
}

/** Encoded InferTensorContents with any of its lists filled. */
function contents(rng: Rng): Uint8Array {
  const integers = (number: number, write: (writer: BinaryWriter) => void) =>
    rng.chance(0.2)
      ? repeated(
          rng,
          number,
          WireType.Varint,
          some(rng, 5, () => write),
        )
      : [];
  return interleave(rng, [
    integers(1, (writer) => writer.bool(rng.chance(0.5))),
    integers(2, (writer) => writer.int32(rng.below(2 ** 32) | 0)),
    integers(3, (writer) => writer.int64(rng.pick(INTEGERS))),
    integers(4, (writer) => writer.uint32(rng.below(2 ** 32))),
    integers(5, (writer) => writer.uint64(rng.pick(INTEGERS) & (2n ** 64n - 1n))),
    repeated(
      rng,
      6,
      WireType.Bit32,
      some(rng, 4, () => (writer: BinaryWriter) => writer.float(rng.next())),
    ),
    repeated(
      rng,
      7,
      WireType.Bit64,
      some(rng, 4, () => (writer: BinaryWriter) => writer.double(rng.next())),
    ),
    some(rng, 3, () => bytes(8, randomBytes(rng, rng.below(9)))),
  ]);
}

function input(rng: Rng): Uint8Array {
  const shape = some(rng, 4, () => (writer: BinaryWriter) => writer.int64(rng.pick(INTEGERS)));
  return interleave(rng, [
    rng.chance(0.1) ? [text(1, "replaced"), text(1, rng.pick(NAMES))] : [text(1, rng.pick(NAMES))],
    rng.chance(0.9) ? [text(2, rng.pick(DATATYPES))] : [],
    repeated(rng, 3, WireType.Varint, shape),
    parameters(rng, 4),
    rng.chance(0.4) ? some(rng, 2, () => bytes(5, contents(rng))) : [],
  ]);
}

/** A random ModelInferRequest, encoded at random. */
export function randomRequestBytes(rng: Rng): Uint8Array {
  return interleave(rng, [
    rng.chance(0.9) ? [text(1, rng.pick(NAMES))] : [],
    rng.chance(0.3) ? [text(2, rng.pick(NAMES))] : [],
    rng.chance(0.5) ? [text(3, "replaced"), text(3, rng.pick(NAMES))] : [],
    parameters(rng, 4),
    some(rng, 3, () => bytes(5, input(rng))),
    some(rng, 2, () => bytes(6, interleave(rng, [[text(1, rng.pick(NAMES))], parameters(rng, 2)]))),
    some(rng, 3, () => bytes(7, randomBytes(rng, rng.pick([0, 1, 64, 300])))),
  ]);
}

export function randomBytes(rng: Rng, length: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length }, () => rng.below(256));
}

/** The bytes cut at random places into pieces. */
export function randomPieces(rng: Rng, whole: Uint8Array): Uint8Array[] {
  const pieces: Uint8Array[] = [];
  for (let at = 0; at < whole.length; ) {
    const size = 1 + rng.below(rng.chance(0.5) ? 4 : whole.length);
    pieces.push(whole.subarray(at, Math.min(at + size, whole.length)));
    at += size;
  }
  return pieces;
}

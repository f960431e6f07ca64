// As much of the protobuf wire format as PJRT's options and XLA's programs need, over bytes in place.
//
// The reader skips what it is not asked for without looking inside, so that a module's embedded constants cost nothing; it
// checks every length against the end, since a wrong one would read foreign memory. Used by ffi/pjrt.

import { ServerError } from "../src/base/errors.ts";

const VARINT = 0;
const FIXED64 = 1;
const LENGTH = 2;
const FIXED32 = 5;

const encoder = new TextEncoder();

/** Writes fields in the order of the calls. */
export class ProtoWriter {
  private readonly out: number[] = [];

  /** An integer of any sign, as int32, int64, uint64, bool and enum fields are written. */
  varint(field: number, value: number): this {
    this.rawVarint(BigInt(field * 8 + VARINT));
    this.rawVarint(BigInt.asUintN(64, BigInt(value)));
    return this;
  }

  bytes(field: number, value: Uint8Array): this {
    this.rawVarint(BigInt(field * 8 + LENGTH));
    this.rawVarint(BigInt(value.byteLength));
    for (const byte of value) this.out.push(byte);
    return this;
  }

  text(field: number, value: string): this {
    return this.bytes(field, encoder.encode(value));
  }

  finish(): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.out);
  }

  private rawVarint(value: bigint): void {
    let rest = value;
    while (rest > 0x7fn) {
      this.out.push(Number(rest & 0x7fn) | 0x80);
      rest >>= 7n;
    }
    this.out.push(Number(rest));
  }
}

/** One field: a number for the fixed and varint types (exact up to 2^53), a view for strings and messages. */
export type ProtoField = { readonly number: number; readonly value: number | Uint8Array };

/** The fields of a message in order of appearance. Throws DATA_LOSS when the bytes are no protobuf message. */
export function* protoFields(bytes: Uint8Array): Generator<ProtoField> {
  const cursor = new Cursor(bytes);
  while (cursor.position < bytes.byteLength) {
    const tag = cursor.varint();
    const number = Math.floor(tag / 8);
    switch (tag % 8) {
      case VARINT:
        yield { number, value: cursor.varint() };
        break;
      case FIXED64:
        yield { number, value: new DataView(cursor.take(8).slice().buffer).getFloat64(0, true) };
        break;
      case LENGTH:
        yield { number, value: cursor.take(cursor.varint()) };
        break;
      case FIXED32:
        yield { number, value: new DataView(cursor.take(4).slice().buffer).getFloat32(0, true) };
        break;
      default:
        throw malformed(`wire type ${tag % 8} at byte ${cursor.position}`);
    }
  }
}

/** The messages (or strings) of field `number`. */
export function protoMessages(bytes: Uint8Array, number: number): Uint8Array[] {
  const messages: Uint8Array[] = [];
  for (const field of protoFields(bytes)) {
    if (field.number === number && typeof field.value !== "number") messages.push(field.value);
  }
  return messages;
}

/** The integers of the repeated field `number`, packed or not. */
export function protoIntegers(bytes: Uint8Array, number: number): number[] {
  const integers: number[] = [];
  for (const field of protoFields(bytes)) {
    if (field.number !== number) continue;
    if (typeof field.value === "number") integers.push(field.value);
    else for (const cursor = new Cursor(field.value); !cursor.atEnd; ) integers.push(cursor.varint());
  }
  return integers;
}

class Cursor {
  position = 0;

  constructor(private readonly bytes: Uint8Array) {}

  get atEnd(): boolean {
    return this.position >= this.bytes.byteLength;
  }

  /** A signed 64-bit integer, exact up to 2^53: seven bytes carry the low 49 bits, three the high 15. */
  varint(): number {
    let low = 0;
    let high = 0;
    for (let index = 0; index < 10; index++) {
      if (this.atEnd) throw malformed("a varint runs past the end");
      const byte = this.bytes[this.position++]!;
      if (index < 7) low += (byte & 0x7f) * 2 ** (7 * index);
      else high += (byte & 0x7f) * 2 ** (7 * (index - 7));
      if (byte < 0x80) return low + (high >= 2 ** 14 ? high - 2 ** 15 : high) * 2 ** 49;
    }
    throw malformed("a varint of more than ten bytes");
  }

  take(length: number): Uint8Array {
    const end = this.position + length;
    if (length < 0 || end > this.bytes.byteLength)
      throw malformed(`${length} bytes at byte ${this.position} run past the end`);
    const view = this.bytes.subarray(this.position, end);
    this.position = end;
    return view;
  }
}

function malformed(reason: string): ServerError {
  return new ServerError("DATA_LOSS", `not a protobuf message: ${reason}`);
}

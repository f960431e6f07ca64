// ProtobufReader: protobuf's wire format read from bytes that may lie in several chunks, without copying `bytes` fields.
//
// Every read is checked against the message it belongs to, so a malformed message ends in one INVALID_ARGUMENT that
// names message, field and offset; nothing is allocated on the word of a length. Field names come from the generated
// descriptors, and only when something is wrong. Used by the decoders of this room.

import { ServerError } from "../base/errors.ts";
import { PROTOBUF_GROUP_DEPTH_MAX, WIRE_STRING_BYTES_MAX } from "../base/limits.ts";
import { type ByteSource, Chunks } from "../tensor/byte-source.ts";

/** What an error says of a message; every generated descriptor is one. */
export interface MessageNames {
  readonly typeName: string;
  readonly fields: readonly { readonly number: number; readonly name: string }[];
}

/** The wire types of https://protobuf.dev/programming-guides/encoding/. */
export const VARINT = 0;
export const FIXED64 = 1;
export const LENGTH = 2;
const GROUP_START = 3;
const GROUP_END = 4;
export const FIXED32 = 5;

const EMPTY = new Uint8Array(0);
const EMPTY_SOURCE = Chunks.of(EMPTY);
const TWO_32 = 2 ** 32;

// proto3 strings are UTF-8, and a byte order mark is text like any other.
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
// Bun gives every Buffer method to plain Uint8Arrays; this one makes a string without making a view first.
const latin1Slice = (Buffer.prototype as unknown as { latin1Slice(start: number, end: number): string }).latin1Slice;

const scratch = new DataView(new ArrayBuffer(8));

export class ProtobufReader {
  private readonly chunks: readonly Uint8Array[];
  private chunk: Uint8Array;
  private chunkIndex = 0;
  /** Position inside `chunk`, and the offset in the whole of its first byte. */
  private at = 0;
  private base = 0;
  /** Offset in the whole at which the current message ends. */
  private end: number;
  private tag = 0;
  private tagOffset = 0;
  private fieldCount = 0;
  /** The messages around the current one, each with its end, tag and tag's offset. */
  private readonly outerMessages: MessageNames[] = [];
  private readonly outerPlaces: number[] = [];
  /** The last varint or fixed value, as signed halves. */
  private low = 0;
  private high = 0;

  constructor(
    bytes: ByteSource,
    private message: MessageNames,
    /** Fields that the message may have in all, its inner messages' and unknown ones included. */
    private readonly fieldsMax: number,
  ) {
    this.chunks = bytes.chunks;
    this.chunk = bytes.chunks[0] ?? EMPTY;
    this.end = bytes.byteLength;
  }

  /** Bytes read so far, of the whole. */
  get offset(): number {
    return this.base + this.at;
  }

  /** The next field's tag (number << 3 | wire type); 0 at the end of the message, which leads back to the outer one. */
  nextTag(): number {
    const tag = this.readTag();
    if (tag === 0) this.leave();
    return tag;
  }

  /** Enters the message whose length comes next; its fields follow, until nextTag() returns 0. */
  enter(message: MessageNames): void {
    const length = this.length();
    this.outerMessages.push(this.message);
    this.outerPlaces.push(this.end, this.tag, this.tagOffset);
    this.message = message;
    this.end = this.offset + length;
  }

  /** Offset at which the packed field whose length comes next ends. Read values while offset is below it. */
  packedEnd(): number {
    const length = this.length();
    return this.offset + length;
  }

  /** Checks that the last packed value ended where the packed field does. */
  closePacked(end: number): void {
    if (this.offset !== end) this.fail("the last packed value runs past the end of its field");
  }

  bool(): boolean {
    this.varint();
    return (this.low | this.high) !== 0;
  }

  /** An int32 or the low half of any varint, as protobuf truncates it. */
  int32(): number {
    this.varint();
    return this.low;
  }

  /** An int64; beyond 2^53 the nearest number. */
  int64AsNumber(): number {
    this.varint();
    return this.high * TWO_32 + (this.low >>> 0);
  }

  int64(): bigint {
    this.varint();
    return (BigInt(this.high) << 32n) | BigInt(this.low >>> 0);
  }

  uint64(): bigint {
    this.varint();
    return (BigInt(this.high >>> 0) << 32n) | BigInt(this.low >>> 0);
  }

  double(): number {
    this.fixed64();
    scratch.setInt32(0, this.low, true);
    scratch.setInt32(4, this.high, true);
    return scratch.getFloat64(0, true);
  }

  /** A 64-bit varint as two 32-bit words, the low one first. */
  writeVarint64(target: Uint32Array, index: number): void {
    this.varint();
    target[index] = this.low;
    target[index + 1] = this.high;
  }

  /** A string; must be UTF-8 of at most WIRE_STRING_BYTES_MAX. */
  string(): string {
    const length = this.length();
    if (length > WIRE_STRING_BYTES_MAX) {
      this.fail(`a string of ${length} bytes, expected at most ${WIRE_STRING_BYTES_MAX}`);
    }
    if (this.at + length > this.chunk.length) return this.decodeText(this.take(length).contiguous(), 0, length);
    const start = this.at;
    this.at += length;
    return this.decodeText(this.chunk, start, start + length);
  }

  /** A `bytes` field, as a view. */
  bytes(): ByteSource {
    return this.take(this.length());
  }

  /** A fixed-size value of `size` bytes, as a view. */
  fixed(size: number): ByteSource {
    if (size > this.end - this.offset) this.fail("the value runs past the end of its message");
    return this.take(size);
  }

  /** The next `count` bytes, which the caller knows to be inside the message, as a view. */
  private take(count: number): ByteSource {
    const start = this.at;
    if (start + count <= this.chunk.length) {
      this.at += count;
      return count === 0 ? EMPTY_SOURCE : Chunks.of(this.chunk.subarray(start, start + count));
    }
    const pieces: Uint8Array[] = [];
    let left = count;
    while (left > 0) {
      if (this.at === this.chunk.length) this.nextChunk();
      const size = Math.min(left, this.chunk.length - this.at);
      pieces.push(this.chunk.subarray(this.at, this.at + size));
      this.at += size;
      left -= size;
    }
    return Chunks.from(pieces);
  }

  /**
   * Passes over the field of the tag just read, which the caller does not know. A field that the message has, in a
   * wire type that it cannot have, is malformed.
   */
  skipUnknown(): void {
    const number = this.tag >>> 3;
    if (this.message.fields.some((field) => field.number === number)) {
      this.fail(`wire type ${this.tag & 7} is not this field's`);
    }
    this.skip(this.tag, 0);
  }

  /** Refuses the field just read. Errors: INVALID_ARGUMENT, always. */
  fail(reason: string): never {
    const name = this.message.typeName.slice(this.message.typeName.indexOf(".") + 1);
    const number = this.tag >>> 3;
    const field = this.message.fields.find((candidate) => candidate.number === number);
    const where = number === 0 ? "" : `, field ${field ? `${field.name} (${number})` : number}`;
    throw new ServerError(
      "INVALID_ARGUMENT",
      `malformed protobuf: ${name}${where} at byte ${this.tagOffset}: ${reason}`,
    );
  }

  /** The next field's tag; 0 at the end of the message. */
  private readTag(): number {
    const offset = this.base + this.at;
    if (offset >= this.end) {
      if (offset > this.end) this.fail("the value runs past the end of its message");
      return 0;
    }
    this.tagOffset = offset;
    this.tag = 0;
    const tag = this.varint32();
    this.tag = tag;
    if (tag >>> 3 === 0) this.fail("field number 0 does not exist");
    if (++this.fieldCount > this.fieldsMax) this.fail(`more than ${this.fieldsMax} fields`);
    return tag;
  }

  private leave(): void {
    const outer = this.outerMessages.pop();
    if (!outer) return;
    this.message = outer;
    this.tagOffset = this.outerPlaces.pop()!;
    this.tag = this.outerPlaces.pop()!;
    this.end = this.outerPlaces.pop()!;
  }

  private skip(tag: number, depth: number): void {
    switch (tag & 7) {
      case VARINT:
        this.varint();
        return;
      case FIXED64:
        this.pass(8);
        return;
      case LENGTH:
        this.pass(this.length());
        return;
      case GROUP_START:
        this.skipGroup(tag, depth + 1);
        return;
      case FIXED32:
        this.pass(4);
        return;
      default:
        this.fail(
          `wire type ${tag & 7} ${(tag & 7) === GROUP_END ? "ends a group that never began" : "does not exist"}`,
        );
    }
  }

  private skipGroup(tag: number, depth: number): void {
    const offset = this.tagOffset;
    if (depth > PROTOBUF_GROUP_DEPTH_MAX) this.fail(`groups nested deeper than ${PROTOBUF_GROUP_DEPTH_MAX}`);
    for (let inner = this.readTag(); inner !== 0; inner = this.readTag()) {
      if ((inner & 7) !== GROUP_END) this.skip(inner, depth);
      else if (inner >>> 3 === tag >>> 3) return;
      else this.fail("ends another group than the one it is in");
    }
    this.tag = tag;
    this.tagOffset = offset;
    this.fail("a group does not end");
  }

  /** A length that fits the rest of the message. */
  private length(): number {
    const first = this.byte();
    let length = first;
    if (first >= 0x80) {
      this.at--;
      this.varint();
      length = (this.high >>> 0) * TWO_32 + (this.low >>> 0);
    }
    const left = this.end - this.offset;
    if (length > left) this.fail(`a length of ${length} bytes, ${Math.max(left, 0)} are left in its message`);
    return length;
  }

  private pass(count: number): void {
    if (count > this.end - this.offset) this.fail("the value runs past the end of its message");
    let left = count;
    while (left > this.chunk.length - this.at) {
      left -= this.chunk.length - this.at;
      this.at = this.chunk.length;
      this.nextChunk();
    }
    this.at += left;
  }

  private byte(): number {
    if (this.at === this.chunk.length) this.nextChunk();
    return this.chunk[this.at++]!;
  }

  private nextChunk(): void {
    const next = this.chunks[this.chunkIndex + 1];
    if (!next) this.fail("the message ends inside this value");
    this.chunkIndex++;
    this.base += this.chunk.length;
    this.chunk = next;
    this.at = 0;
  }

  /** A tag: a varint of at most five bytes. */
  private varint32(): number {
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.byte();
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) {
        if (shift === 28 && byte > 0x0f) break;
        return value >>> 0;
      }
    }
    this.fail("a tag of more than 32 bits");
  }

  /** A varint of at most ten bytes into `low` and `high`; bits beyond 64 are dropped, as everywhere in protobuf. */
  private varint(): void {
    let low = 0;
    let high = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = this.byte();
      const bits = byte & 0x7f;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        high = bits >>> 4;
      } else high |= bits << (shift - 32);
      if (byte < 0x80) {
        this.low = low;
        this.high = high;
        return;
      }
    }
    this.fail("a varint of more than 10 bytes");
  }

  private fixed64(): void {
    this.low = this.fixed32();
    this.high = this.fixed32();
  }

  private fixed32(): number {
    return this.byte() | (this.byte() << 8) | (this.byte() << 16) | (this.byte() << 24);
  }

  private decodeText(bytes: Uint8Array, start: number, end: number): string {
    for (let index = start; index < end; index++) {
      if (bytes[index]! < 0x80) continue;
      try {
        return utf8.decode(bytes.subarray(start, end));
      } catch {
        this.fail("the string is not valid UTF-8");
      }
    }
    return latin1Slice.call(bytes, start, end);
  }
}

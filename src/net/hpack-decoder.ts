// HPACK decoding (RFC 7541): header blocks to names and values, with the dynamic table of one connection.
//
// Invariant: after a HpackError the table is no longer the peer's and the connection must end (COMPRESSION_ERROR).
// Strings are latin-1, one char a byte, so lengths are bytes. Called by `http2-connection.ts`, one a connection.

import { ENTRY_OVERHEAD_BYTES, STATIC_TABLE } from "./hpack-tables.ts";
import { huffmanDecode } from "./huffman.ts";

/** A header block that breaks RFC 7541. */
export class HpackError extends Error {}

const STATIC_COUNT = STATIC_TABLE.length;
const latin1Slice = Buffer.prototype.latin1Slice as (this: Uint8Array, start: number, end: number) => string;

// Where Huffman strings are decoded to, one for all connections: a string is taken out of it at once.
let scratch = new Uint8Array(0);

export class HpackDecoder {
  /** Changes whenever the dynamic table does: equal bytes at an equal version decode equally. */
  version = 0;
  // The dynamic table: entries from `oldest` on, the newest last. Spent ones are cut off in bulk.
  private readonly names: string[] = [];
  private readonly values: string[] = [];
  private oldest = 0;
  private tableBytes = 0;
  private tableBytesMax: number;
  private at = 0;

  /**
   * @param tableBytesLimit the SETTINGS_HEADER_TABLE_SIZE that we sent
   * @param stringBytesMax a decoded name or value longer than this is an error
   */
  constructor(
    private readonly tableBytesLimit: number,
    private readonly stringBytesMax: number,
  ) {
    this.tableBytesMax = tableBytesLimit;
    if (scratch.length < stringBytesMax) scratch = new Uint8Array(stringBytesMax);
  }

  /** Decodes the block `bytes[start, end)`, handing each field to `field` in order. Throws HpackError. */
  decode(bytes: Uint8Array, start: number, end: number, field: (name: string, value: string) => void): void {
    this.at = start;
    let fields = 0;
    while (this.at < end) {
      const first = bytes[this.at]!;
      if (first & 0x80) {
        const index = this.integer(bytes, end, 7);
        field(this.nameAt(index), this.valueAt(index));
      } else if ((first & 0xe0) === 0x20) {
        if (fields > 0) throw new HpackError("table size update after a field");
        this.resize(this.integer(bytes, end, 5));
        continue;
      } else {
        const indexed = (first & 0x40) !== 0;
        const index = this.integer(bytes, end, indexed ? 6 : 4);
        const name = index === 0 ? this.string(bytes, end) : this.nameAt(index);
        const value = this.string(bytes, end);
        if (indexed) this.insert(name, value);
        field(name, value);
      }
      fields++;
    }
  }

  private nameAt(index: number): string {
    if (index > 0 && index <= STATIC_COUNT) return STATIC_TABLE[index - 1]![0];
    return this.names[this.slot(index)]!;
  }

  private valueAt(index: number): string {
    if (index > 0 && index <= STATIC_COUNT) return STATIC_TABLE[index - 1]![1];
    return this.values[this.slot(index)]!;
  }

  private slot(index: number): number {
    const slot = this.names.length - (index - STATIC_COUNT);
    if (index === 0 || slot < this.oldest) throw new HpackError(`index ${index} is outside the tables`);
    return slot;
  }

  private resize(bytes: number): void {
    if (bytes > this.tableBytesLimit) throw new HpackError(`table size ${bytes} is above ${this.tableBytesLimit}`);
    this.tableBytesMax = bytes;
    this.version++;
    this.evict(0);
  }

  private insert(name: string, value: string): void {
    const bytes = name.length + value.length + ENTRY_OVERHEAD_BYTES;
    this.version++;
    this.evict(bytes);
    if (bytes > this.tableBytesMax) return;
    this.names.push(name);
    this.values.push(value);
    this.tableBytes += bytes;
  }

  /** Drops the oldest entries until `bytesNeeded` more fit, or none is left. */
  private evict(bytesNeeded: number): void {
    while (this.tableBytes > 0 && this.tableBytes + bytesNeeded > this.tableBytesMax) {
      this.tableBytes -= this.names[this.oldest]!.length + this.values[this.oldest]!.length + ENTRY_OVERHEAD_BYTES;
      this.names[this.oldest] = this.values[this.oldest] = "";
      this.oldest++;
    }
    if (this.oldest < 256) return;
    this.names.splice(0, this.oldest);
    this.values.splice(0, this.oldest);
    this.oldest = 0;
  }

  /** Section 5.1. The bound of 2^28 is far above any length or index that can be valid. */
  private integer(bytes: Uint8Array, end: number, prefixBits: number): number {
    const mask = (1 << prefixBits) - 1;
    let value = bytes[this.at++]! & mask;
    if (value < mask) return value;
    for (let shift = 0; shift <= 28; shift += 7) {
      if (this.at >= end) throw new HpackError("integer runs past the block");
      const byte = bytes[this.at++]!;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) {
        if (value >= 2 ** 28) break;
        return value;
      }
    }
    throw new HpackError("integer too large");
  }

  private string(bytes: Uint8Array, end: number): string {
    if (this.at >= end) throw new HpackError("string runs past the block");
    const coded = (bytes[this.at]! & 0x80) !== 0;
    const length = this.integer(bytes, end, 7);
    const start = this.at;
    if (length > end - start) throw new HpackError("string runs past the block");
    this.at += length;
    if (!coded) {
      if (length > this.stringBytesMax) throw new HpackError(`string of ${length} bytes`);
      return latin1Slice.call(bytes, start, this.at);
    }
    const decoded = huffmanDecode(bytes, start, this.at, scratch);
    if (decoded < 0 || decoded > this.stringBytesMax)
      throw new HpackError("invalid Huffman code, or a string too long");
    return latin1Slice.call(scratch, 0, decoded);
  }
}

// HPACK encoding (RFC 7541) without a dynamic table: equal fields always give equal bytes.
//
// So a block can be made once and sent on every connection, and a peer's HEADER_TABLE_SIZE needs no more than the update
// to size 0 that `http2-connection.ts` puts before its next block. Called for response headers and trailers.

import { STATIC_TABLE } from "./hpack-tables.ts";
import { huffmanBytes, huffmanEncode } from "./huffman.ts";

/** A dynamic table size update to 0, to stand first in a block. */
export const TABLE_SIZE_ZERO = 0x20;

const STATIC_NAMES = new Map<string, number>();
const STATIC_FIELDS = new Map<string, number>();
STATIC_TABLE.forEach(([name, value], index) => {
  if (!STATIC_NAMES.has(name)) STATIC_NAMES.set(name, index + 1);
  STATIC_FIELDS.set(`${name}\0${value}`, index + 1);
});

/** Encodes fields, in order, as one header block. Names are lower case; all strings latin-1. */
export function encodeHeaderBlock(fields: readonly (readonly [name: string, value: string])[]): Uint8Array {
  let bytesMax = 0;
  // An integer takes at most 6 bytes; a string is never longer than its plain form.
  for (const [name, value] of fields) bytesMax += 18 + name.length + value.length;
  const block = new Uint8Array(bytesMax);
  let at = 0;
  for (const [name, value] of fields) {
    const exact = STATIC_FIELDS.get(`${name}\0${value}`);
    if (exact !== undefined) {
      at = writeInteger(block, at, 0x80, 7, exact);
      continue;
    }
    const index = STATIC_NAMES.get(name) ?? 0;
    at = writeInteger(block, at, 0x00, 4, index);
    if (index === 0) at = writeString(block, at, name);
    at = writeString(block, at, value);
  }
  return block.slice(0, at);
}

function writeInteger(target: Uint8Array, at: number, flags: number, prefixBits: number, value: number): number {
  const mask = (1 << prefixBits) - 1;
  if (value < mask) {
    target[at++] = flags | value;
    return at;
  }
  target[at++] = flags | mask;
  let rest = value - mask;
  for (; rest >= 0x80; rest >>>= 7) target[at++] = (rest & 0x7f) | 0x80;
  target[at++] = rest;
  return at;
}

function writeString(target: Uint8Array, at: number, text: string): number {
  const coded = huffmanBytes(text);
  if (coded < text.length) return huffmanEncode(text, target, writeInteger(target, at, 0x80, 7, coded));
  at = writeInteger(target, at, 0, 7, text.length);
  for (let index = 0; index < text.length; index++) target[at++] = text.charCodeAt(index);
  return at;
}

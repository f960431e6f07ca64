// The Huffman code of HPACK (RFC 7541, section 5.2 and appendix B), both ways.
//
// Decoding looks up eight bits at a time in tables that are built once from the code lengths. Invariant: a string that
// ends in anything but up to seven one-bits, or that contains EOS, is refused. Called by the HPACK encoder and decoder.

import { HUFFMAN_BITS } from "./hpack-tables.ts";

const EOS = 256;

/** The code of each symbol, right-aligned; its length is in HUFFMAN_BITS. */
const CODES = canonicalCodes();

function canonicalCodes(): Uint32Array {
  const codes = new Uint32Array(HUFFMAN_BITS.length);
  let code = 0;
  for (let bits = 1; bits <= 30; bits++) {
    code *= 2;
    HUFFMAN_BITS.forEach((length, symbol) => {
      if (length === bits) codes[symbol] = code++;
    });
  }
  return codes;
}

// Tables of 256 entries, the first one for the first eight bits of a code. A leaf is LEAF | bits used << 8 | symbol (EOS
// is never stored: it stays 0, as no table follows table 0), any other entry the number of the table that goes on.
const LEAF = 0x8000;
const TABLES = decodeTables();

function decodeTables(): Uint16Array {
  const tables: Uint16Array[] = [new Uint16Array(256)];
  for (let symbol = 0; symbol < EOS; symbol++) {
    const code = CODES[symbol]!;
    let bits = HUFFMAN_BITS[symbol]!;
    let table = tables[0]!;
    while (bits > 8) {
      bits -= 8;
      const at = (code >>> bits) & 0xff;
      if (table[at] === 0) table[at] = tables.push(new Uint16Array(256)) - 1;
      table = tables[table[at]!]!;
    }
    const first = (code << (8 - bits)) & 0xff;
    table.fill(LEAF | (bits << 8) | symbol, first, first + (1 << (8 - bits)));
  }
  const flat = new Uint16Array(tables.length * 256);
  tables.forEach((table, index) => {
    flat.set(table, index * 256);
  });
  return flat;
}

/**
 * Decodes `bytes[start, end)` into `target` from 0 on. Returns the count of bytes written, or -1 when the code is
 * invalid or the target too small.
 */
export function huffmanDecode(bytes: Uint8Array, start: number, end: number, target: Uint8Array): number {
  let pending = 0; // bits read and not yet decoded: the low `count` bits
  let count = 0;
  let table = 0;
  let tail = 0; // bits since the last symbol, to judge the padding
  let written = 0;
  for (let at = start; at < end; at++) {
    pending = ((pending << 8) | bytes[at]!) & 0xffff;
    count += 8;
    tail += 8;
    while (count >= 8) {
      const entry = TABLES[(table << 8) | ((pending >>> (count - 8)) & 0xff)]!;
      if (entry === 0) return -1;
      if (entry < LEAF) {
        table = entry;
        count -= 8;
        continue;
      }
      if (written >= target.length) return -1;
      target[written++] = entry & 0xff;
      count -= (entry >>> 8) & 0x7f;
      tail = count;
      table = 0;
    }
  }
  // Fewer than eight bits are left: symbols as long as whole ones fit, then padding of ones.
  while (count > 0) {
    const entry = TABLES[(table << 8) | ((pending << (8 - count)) & 0xff)]!;
    const bits = (entry >>> 8) & 0x7f;
    if (entry < LEAF || bits > count) break;
    if (written >= target.length) return -1;
    target[written++] = entry & 0xff;
    count -= bits;
    tail = count;
    table = 0;
  }
  const ones = (1 << count) - 1;
  return tail < 8 && (pending & ones) === ones ? written : -1;
}

/** Bytes that `text` (latin-1) takes when coded. */
export function huffmanBytes(text: string): number {
  let bits = 0;
  for (let at = 0; at < text.length; at++) bits += HUFFMAN_BITS[text.charCodeAt(at) & 0xff]!;
  return (bits + 7) >>> 3;
}

/** Codes `text` (latin-1) into `target` at `offset`; returns the offset behind it. */
export function huffmanEncode(text: string, target: Uint8Array, offset: number): number {
  let pending = 0; // fewer than eight bits, then one code: at most 37 bits, so the arithmetic is not bitwise
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    const symbol = text.charCodeAt(at) & 0xff;
    pending = pending * 2 ** HUFFMAN_BITS[symbol]! + CODES[symbol]!;
    count += HUFFMAN_BITS[symbol]!;
    while (count >= 8) {
      count -= 8;
      const unit = 2 ** count;
      const byte = Math.floor(pending / unit);
      target[offset++] = byte;
      pending -= byte * unit;
    }
  }
  if (count > 0) target[offset++] = (pending << (8 - count)) | (0xff >>> count);
  return offset;
}

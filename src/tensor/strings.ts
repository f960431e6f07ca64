// BYTES tensors: KServe's strings, each a u32 little-endian length followed by that many bytes.
//
// Lengths come from outside, so each is checked against what is there before anything is read. Used by wire/ and infer/.

import type { ByteSource } from "./byte-source.ts";

const PREFIX_BYTES = 4;

/**
 * Splits `source` into exactly `count` strings; views where the bytes lie in one piece.
 * Throws RangeError that says which element lies, and how, when lengths and bytes disagree.
 */
export function decodeStrings(source: ByteSource, count: number): Uint8Array[] {
  const bytes = source.contiguous();
  if (count * PREFIX_BYTES > bytes.byteLength) {
    throw new RangeError(`${count} elements need at least ${count * PREFIX_BYTES} bytes, received ${bytes.byteLength}`);
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const strings: Uint8Array[] = new Array(count);
  let position = 0;
  for (let index = 0; index < count; index++) {
    const left = bytes.byteLength - position - PREFIX_BYTES;
    if (left < 0) throw new RangeError(`element ${index} of ${count}: no length prefix at byte ${position}`);
    const length = view.getUint32(position, true);
    if (length > left) {
      throw new RangeError(`element ${index} of ${count}: length prefix says ${length} bytes, ${left} are left`);
    }
    position += PREFIX_BYTES;
    strings[index] = bytes.subarray(position, position + length);
    position += length;
  }
  if (position !== bytes.byteLength) {
    throw new RangeError(`${count} elements take ${position} bytes, received ${bytes.byteLength}`);
  }
  return strings;
}

/** The strings with their length prefixes, in one piece. */
export function encodeStrings(strings: readonly Uint8Array[]): Uint8Array {
  let total = strings.length * PREFIX_BYTES;
  for (const string of strings) total += string.byteLength;
  const bytes = new Uint8Array(total);
  const view = new DataView(bytes.buffer);
  let position = 0;
  for (const string of strings) {
    view.setUint32(position, string.byteLength, true);
    bytes.set(string, position + PREFIX_BYTES);
    position += PREFIX_BYTES + string.byteLength;
  }
  return bytes;
}

// The length prefixes of a raw BYTES tensor, walked without making anything: each must hold, and all bytes be used.
//
// A tensor of many empty strings is 4 bytes each, so making a view of each just to count them would let a request
// cost thirty times its size. Used by infer-call.ts; whoever wants the strings uses tensor/strings.ts afterwards.

import { ServerError } from "../base/errors.ts";
import type { ByteSource } from "../tensor/byte-source.ts";

const PREFIX_BYTES = 4;

/**
 * Checks that `data` is exactly `count` strings, each a u32 little-endian length and that many bytes.
 * `tensor` names it in messages. Errors: INVALID_ARGUMENT that says which element lies, and how.
 */
export function checkStrings(data: ByteSource, count: number, tensor: string): void {
  const total = data.byteLength;
  if (count * PREFIX_BYTES > total) {
    throw invalid(tensor, `${total} raw bytes, ${count} elements need at least ${count * PREFIX_BYTES}`);
  }
  const chunks = data.chunks;
  let chunkIndex = 0;
  let chunk = chunks[0];
  let base = 0; // offset in the whole of the chunk's first byte
  let position = 0;
  const byteAt = (offset: number): number => {
    while (chunk && offset >= base + chunk.byteLength) {
      base += chunk.byteLength;
      chunk = chunks[++chunkIndex];
    }
    return chunk![offset - base]!;
  };
  for (let index = 0; index < count; index++) {
    const left = total - position - PREFIX_BYTES;
    if (left < 0) throw invalid(tensor, `element ${index} of ${count}: its length prefix is cut off`);
    const length =
      (byteAt(position) | (byteAt(position + 1) << 8) | (byteAt(position + 2) << 16) | (byteAt(position + 3) << 24)) >>>
      0;
    if (length > left) {
      throw invalid(tensor, `element ${index} of ${count}: its length prefix says ${length} bytes, ${left} are left`);
    }
    position += PREFIX_BYTES + length;
  }
  if (position !== total) throw invalid(tensor, `${total} raw bytes, its ${count} elements take ${position}`);
}

function invalid(tensor: string, reason: string): ServerError {
  return new ServerError("INVALID_ARGUMENT", `${tensor}: ${reason}`);
}

// Rows: the slices of tensors along their batch axis, moved between requests, slabs and replies.
//
// A tensor with batch axis `a` is `outer` blocks (the axes before a), each of `extent` rows of `rowBytes` (the axes
// after a). With a = 0, the usual case, outer is 1 and rows are contiguous. Used by infer/ (assemble, split).

import { type ByteSource, Chunks } from "./byte-source.ts";
import { type Dtype, sizeOf } from "./dtype.ts";
import type { Shape } from "./shape.ts";

/** How rows lie in a tensor, apart from their number. */
export interface RowLayout {
  readonly outer: number;
  readonly rowBytes: number;
}

/** The row layout of a shape of fixed-size elements along `batchAxis`; the extent of that axis itself is ignored. */
export function rowLayout(dtype: Dtype, shape: Shape, batchAxis: number): RowLayout {
  let outer = 1;
  for (let axis = 0; axis < batchAxis; axis++) outer *= shape[axis]!;
  let rowBytes = sizeOf(dtype);
  for (let axis = batchAxis + 1; axis < shape.length; axis++) rowBytes *= shape[axis]!;
  return { outer, rowBytes };
}

/**
 * Copies rows [from, from + count) of `source`, which has `sourceRows`, to row `at` of `target`, which has `targetRows`.
 */
export function copyRows(
  layout: RowLayout,
  source: ByteSource,
  sourceRows: number,
  from: number,
  count: number,
  target: Uint8Array,
  targetRows: number,
  at: number,
): void {
  const { outer, rowBytes } = layout;
  if (outer === 1 && count === sourceRows) {
    source.copyTo(target, at * rowBytes);
    return;
  }
  for (let block = 0; block < outer; block++) {
    const start = (block * sourceRows + from) * rowBytes;
    source.slice(start, start + count * rowBytes).copyTo(target, (block * targetRows + at) * rowBytes);
  }
}

/** Zeroes rows [from, rows) of `target`. */
export function zeroRows(layout: RowLayout, target: Uint8Array, rows: number, from: number): void {
  if (from >= rows) return;
  const { outer, rowBytes } = layout;
  for (let block = 0; block < outer; block++) {
    target.fill(0, (block * rows + from) * rowBytes, (block + 1) * rows * rowBytes);
  }
}

/** Rows [from, from + count) of `tensor`, which has `rows`: a view each block, no copy. */
export function viewRows(layout: RowLayout, tensor: Uint8Array, rows: number, from: number, count: number): Chunks {
  const { outer, rowBytes } = layout;
  const chunks: Uint8Array[] = [];
  for (let block = 0; block < outer; block++) {
    const start = (block * rows + from) * rowBytes;
    chunks.push(tensor.subarray(start, start + count * rowBytes));
  }
  return Chunks.from(chunks);
}

/** Parts of one tensor, each with its own row count, joined along the batch axis: views only, block by block. */
export function joinRows(layout: RowLayout, parts: readonly { rows: number; bytes: ByteSource }[]): ByteSource {
  if (parts.length === 1) return parts[0]!.bytes;
  const chunks: Uint8Array[] = [];
  for (let block = 0; block < layout.outer; block++) {
    for (const { rows, bytes } of parts) {
      const size = rows * layout.rowBytes;
      chunks.push(...bytes.slice(block * size, (block + 1) * size).chunks);
    }
  }
  return Chunks.from(chunks);
}

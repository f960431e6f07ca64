// Rows: the slices of tensors along their batch axis, moved between requests, slabs and replies.
//
// A tensor with batch axis `a` is `outer` blocks (the axes before a), each of `extent` rows of `rowBytes` (the axes
// after a). With a = 0, the usual case, outer is 1 and rows are contiguous. Used by infer/ (assemble, split).

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
  { outer, rowBytes }: RowLayout,
  source: Uint8Array,
  sourceRows: number,
  from: number,
  count: number,
  target: Uint8Array,
  targetRows: number,
  at: number,
): void {
  for (let block = 0; block < outer; block++) {
    const start = (block * sourceRows + from) * rowBytes;
    target.set(source.subarray(start, start + count * rowBytes), (block * targetRows + at) * rowBytes);
  }
}

/** Zeroes rows [from, rows) of `target`. */
export function zeroRows({ outer, rowBytes }: RowLayout, target: Uint8Array, rows: number, from: number): void {
  if (from >= rows) return;
  for (let block = 0; block < outer; block++) {
    target.fill(0, (block * rows + from) * rowBytes, (block + 1) * rows * rowBytes);
  }
}

// Shapes: lists of extents in wire order (row-major), and their products without overflow.
//
// Counts and byte counts are exact as numbers (below 2^53); whatever would not be is undefined, never rounded.
// Used by every room that sizes a tensor.

import { type Dtype, sizeOf } from "./dtype.ts";

export type Shape = readonly number[];

/** Elements of a shape; 1 for rank 0. undefined when an extent is negative or not whole, or the product leaves 2^53. */
export function elementCount(shape: Shape): number | undefined {
  let count = 1;
  let zero = false;
  for (const extent of shape) {
    if (!Number.isSafeInteger(extent) || extent < 0) return undefined;
    if (extent === 0) zero = true;
    // Zero extents are left out of the running product, so that [2^40, 2^40, 0] is still refused as a lie.
    else count *= extent;
    if (count > Number.MAX_SAFE_INTEGER) return undefined;
  }
  return zero ? 0 : count;
}

/** Bytes of a dense tensor of a fixed-size dtype; undefined as elementCount, and for `bytes`. */
export function byteCount(dtype: Dtype, shape: Shape): number | undefined {
  const count = elementCount(shape);
  const size = sizeOf(dtype);
  if (count === undefined || size === 0) return undefined;
  const bytes = count * size;
  return bytes > Number.MAX_SAFE_INTEGER ? undefined : bytes;
}

export function sameShape(a: Shape, b: Shape): boolean {
  return a.length === b.length && a.every((extent, axis) => extent === b[axis]);
}

/** `[1,384]`, as error messages and tables print it. */
export function formatShape(shape: Shape): string {
  return `[${shape.join(",")}]`;
}

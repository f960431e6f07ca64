// Reversing all axes of a tensor, as the weights of a 2.0 bundle need (reference: bundle format, "Order mapping").
//
// The bytes change their order, the elements do not change. Blocked over the two outermost axes, since a naive loop walks
// one side of a large matrix a cache line an element. Used by build-image.ts alone.

import { assert } from "../base/errors.ts";
import { type Dtype, sizeOf } from "../tensor/dtype.ts";
import type { Shape } from "../tensor/shape.ts";

type Elements = Uint8Array | Uint16Array | Uint32Array | BigUint64Array;

// 32 x 32 elements of 8 bytes on each side are 16 KiB: half of a common first-level cache.
const TILE = 32;

/**
 * The tensor whose shape is `shape` reversed, both row-major: element [i, j, k] of `source` becomes [k, j, i].
 * `source` is `shape`'s dense bytes at an address that its dtype's size divides.
 */
export function reverseAxes(source: Uint8Array, dtype: Dtype, shape: Shape): Uint8Array {
  const target = new Uint8Array(source.byteLength);
  const size = sizeOf(dtype);
  const [from, to] = [elementsOf(source, size), elementsOf(target, size)];
  const rank = shape.length;
  if (rank < 2) {
    target.set(source);
    return target;
  }
  const [first, last] = [shape[0]!, shape[rank - 1]!];
  const middle = shape.slice(1, -1);
  const middleCount = middle.reduce((product, extent) => product * extent, 1);
  const index = new Array<number>(middle.length).fill(0);
  for (let count = 0; count < middleCount; count++) {
    // The middle axes' offset in each side: in the source the last of them varies fastest, in the target the first.
    let fromMiddle = 0;
    let toMiddle = 0;
    for (let axis = 0; axis < middle.length; axis++) fromMiddle = fromMiddle * middle[axis]! + index[axis]!;
    for (let axis = middle.length - 1; axis >= 0; axis--) toMiddle = toMiddle * middle[axis]! + index[axis]!;
    transposeOuter(from, to, first, last, middleCount, fromMiddle, toMiddle);
    for (let axis = middle.length - 1; axis >= 0 && ++index[axis]! === middle[axis]; axis--) index[axis] = 0;
  }
  return target;
}

function transposeOuter(
  from: Elements,
  to: Elements,
  first: number,
  last: number,
  middleCount: number,
  fromMiddle: number,
  toMiddle: number,
): void {
  for (let i0 = 0; i0 < first; i0 += TILE) {
    const iEnd = Math.min(i0 + TILE, first);
    for (let j0 = 0; j0 < last; j0 += TILE) {
      const jEnd = Math.min(j0 + TILE, last);
      for (let i = i0; i < iEnd; i++) {
        for (let j = j0; j < jEnd; j++) {
          to[(j * middleCount + toMiddle) * first + i] = from[(i * middleCount + fromMiddle) * last + j]!;
        }
      }
    }
  }
}

function elementsOf(bytes: Uint8Array, size: number): Elements {
  const { buffer, byteOffset, byteLength } = bytes;
  const View = ({ 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: BigUint64Array } as const)[size];
  assert(View, `elements of ${size} bytes can be transposed`);
  return new View(buffer as ArrayBuffer, byteOffset, byteLength / size);
}

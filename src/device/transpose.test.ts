// reverseAxes moves element [i, j, k] to [k, j, i], for every rank, element size, and extents around the tile.

import { expect, test } from "bun:test";
import type { Dtype } from "../tensor/dtype.ts";
import { reverseAxes } from "./transpose.ts";

/** The plain definition, element by element. */
function reversed(values: readonly number[], shape: readonly number[]): number[] {
  const target = new Array<number>(values.length);
  for (const [flat, value] of values.entries()) {
    const index: number[] = [];
    let rest = flat;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      index.unshift(rest % shape[axis]!);
      rest = Math.floor(rest / shape[axis]!);
    }
    let at = 0;
    for (let axis = shape.length - 1; axis >= 0; axis--) at = at * shape[axis]! + index[axis]!;
    target[at] = value;
  }
  return target;
}

const SHAPES = [[], [5], [3, 2], [1, 7], [33, 65], [2, 3, 4], [5, 1, 3], [2, 3, 4, 5], [0, 3], [3, 0, 2], [34, 3, 33]];

test.each([
  ["u8", Uint8Array],
  ["bf16", Uint16Array],
  ["f32", Float32Array],
  ["f64", Float64Array],
] as const)("reverses %s tensors of every rank", (dtype: Dtype, View) => {
  for (const shape of SHAPES) {
    const count = shape.reduce((product, extent) => product * extent, 1);
    const values = Array.from({ length: count }, (_, index) => index % 251);
    const source = new View(values);
    const result = reverseAxes(new Uint8Array(source.buffer), dtype, shape);
    expect([...new View(result.buffer as ArrayBuffer)]).toEqual(reversed(values, shape));
  }
});

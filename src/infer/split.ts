// split: a request's own rows of an executed batch, as views of the slab; and the parts of a split request rejoined.
//
// Nothing is copied: each part retains its slab until the reply that shows it is released. Called by dispatch.

import type { Slab } from "../device/device.ts";
import type { Unit } from "../model/model.ts";
import { type ByteSource, Chunks } from "../tensor/byte-source.ts";
import { joinRows, viewRows } from "../tensor/rows.ts";
import type { Shape } from "../tensor/shape.ts";
import type { Placed } from "./assemble.ts";

/** What one execution made of one request's rows. Holds one reference to the slab. */
export interface Part {
  readonly unit: Unit;
  readonly slab: Slab;
  readonly rows: number;
  /** In the executable's order of outputs. */
  readonly outputs: readonly ByteSource[];
}

/** One tensor of a request's result. */
export interface Result {
  readonly shape: Shape;
  readonly data: ByteSource;
}

export function split(unit: Unit, placed: Placed, slab: Slab): Part {
  slab.retain();
  const outputs = slab.outputs.map((bytes, output) => {
    const layout = unit.outputRows[output];
    if (!layout || unit.batchSize === 0) return Chunks.of(bytes);
    return viewRows(layout, bytes, unit.batchSize, placed.at, placed.rows);
  });
  return { unit, slab, rows: placed.rows, outputs };
}

/** The results of a request from its parts, in order of rows. `batchAxes` are those of the executable's outputs. */
export function join(parts: readonly Part[], batchAxes: readonly number[]): Result[] {
  const { unit } = parts[0]!;
  const rows = parts.reduce((sum, part) => sum + part.rows, 0);
  return unit.layout.outputs.map((slot, output) => {
    const layout = unit.outputRows[output];
    if (!layout || unit.batchSize === 0) return { shape: slot.shape, data: parts[0]!.outputs[output]! };
    const shape = slot.shape.map((extent, axis) => (axis === batchAxes[output] ? rows : extent));
    return {
      shape,
      data: joinRows(
        layout,
        parts.map((part) => ({ rows: part.rows, bytes: part.outputs[output]! })),
      ),
    };
  });
}

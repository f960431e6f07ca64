// split: a request's own rows of an executed batch. As views of the slab where they can be, copied where they must.
//
// Views are for a request that ran in one piece and whose rows lie together; they retain the slab until the reply is
// released. A request in several pieces must not hold one slab while it waits for the next (all slabs could be held so),
// and rows behind other axes would be a view each: both are gathered in memory of their own. Called by Job.

import type { CallTensor } from "../call/call.ts";
import type { Slab } from "../device/device.ts";
import type { Unit } from "../model/unit.ts";
import { Chunks } from "../tensor/byte-source.ts";
import { copyRows } from "../tensor/rows.ts";
import type { Placed } from "./assemble.ts";

/** One tensor of a request's result. */
export type Result = Pick<CallTensor, "shape" | "data">;

/** Whether the rows of every output of a unit lie together. */
export function hasViews(unit: Unit): boolean {
  return unit.outputRows.every((layout) => layout === undefined || layout.outer === 1);
}

/** The rows of `placed`, one result an output, as views that are valid while the slab is retained. */
export function viewResults(unit: Unit, placed: Placed, slab: Slab): Result[] {
  return slab.outputs.map((bytes, output) => {
    const layout = unit.outputRows[output];
    if (!layout) return { shape: unit.layout.outputs[output]!.shape, data: Chunks.of(bytes) };
    const start = placed.at * layout.rowBytes;
    const rows = bytes.subarray(start, start + placed.rows * layout.rowBytes);
    return { shape: withRows(unit, output, placed.rows), data: Chunks.of(rows) };
  });
}

/** Bytes of all outputs of `rows` rows. */
export function resultBytes(unit: Unit, rows: number): number {
  return unit.outputRows.reduce((sum, layout, output) => {
    const ownBytes = layout ? layout.outer * layout.rowBytes * rows : unit.layout.outputs[output]!.byteLength;
    return sum + ownBytes;
  }, 0);
}

/** Memory for the rows of a whole request, one result an output. */
export function emptyResults(unit: Unit, rows: number): { readonly results: Result[]; readonly bytes: Uint8Array[] } {
  const bytes = unit.outputRows.map(
    (layout, output) =>
      new Uint8Array(layout ? layout.outer * layout.rowBytes * rows : unit.layout.outputs[output]!.byteLength),
  );
  const results = bytes.map((each, output) => ({ shape: withRows(unit, output, rows), data: Chunks.of(each) }));
  return { results, bytes };
}

/** Copies the rows of `placed` to their place in a request of `requestRows` rows. */
export function gatherResults(
  unit: Unit,
  placed: Placed,
  slab: Slab,
  requestRows: number,
  targets: readonly Uint8Array[],
): void {
  for (const [output, target] of targets.entries()) {
    const source = slab.outputs[output]!;
    const layout = unit.outputRows[output];
    if (!layout) target.set(source);
    else copyRows(layout, source, unit.batchSize, placed.at, placed.rows, target, requestRows, placed.from);
  }
}

function withRows(unit: Unit, output: number, rows: number): readonly number[] {
  const { shape } = unit.layout.outputs[output]!;
  const axis = unit.outputAxes[output]!;
  return axis < 0 ? shape : shape.map((extent, index) => (index === axis ? rows : extent));
}

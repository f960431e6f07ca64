// assemble: the rows of a batch's requests, copied once, straight to their places in a slab; the tail zeroed.
//
// Called by dispatch, which has checked that shapes fit; the slab may hold an earlier batch's bytes.

import type { Slab } from "../device/device.ts";
import type { Unit } from "../model/unit.ts";
import { copyRows, zeroRows } from "../tensor/rows.ts";
import type { Checked } from "./checked.ts";

/** Some rows of a request, and the row of the batch where they go. */
export interface Placed {
  readonly request: Checked;
  /** First row within the request. */
  readonly from: number;
  readonly rows: number;
  /** First row within the batch. */
  readonly at: number;
}

export function assemble(unit: Unit, placed: readonly Placed[], slab: Slab): void {
  for (let input = 0; input < slab.inputs.length; input++) {
    const target = slab.inputs[input]!;
    const layout = unit.inputRows[input];
    if (!layout) {
      // Never coalesced: one request, whose tensor has the slot's very shape.
      placed[0]!.request.inputs[input]!.copyTo(target, 0);
      continue;
    }
    let filled = 0;
    for (const { request, from, rows, at } of placed) {
      const source = request.inputs[input]!;
      if (layout.outer === 1) {
        const { rowBytes } = layout;
        source.slice(from * rowBytes, (from + rows) * rowBytes).copyTo(target, at * rowBytes);
      } else {
        copyRows(layout, source.contiguous(), request.rows, from, rows, target, unit.batchSize, at);
      }
      filled = at + rows;
    }
    zeroRows(layout, target, unit.batchSize, filled);
  }
}

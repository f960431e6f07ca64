// Unit: one compiled module of a model, with the slab that its execution needs and how rows lie in it.
//
// Made once at load, so that no request looks at an axis again. Read by infer/ (assemble, split) and dispatch.

import type { Bundle, ModuleFile } from "../bundle/bundle.ts";
import type { Executable, SlabLayout } from "../device/device.ts";
import { slabLayout } from "../device/slab.ts";
import { type RowLayout, rowLayout } from "../tensor/rows.ts";
import type { TensorSpec, TensorType } from "../tensor/signature.ts";
import { CostEstimate } from "./cost.ts";

export interface Unit {
  readonly variant: number;
  /** 0 for key 0. */
  readonly batchSize: number;
  readonly executable: Executable;
  readonly layout: SlabLayout;
  /** How rows lie in each slab input; undefined throughout for a model that runs one request at a time. */
  readonly inputRows: readonly (RowLayout | undefined)[];
  readonly outputRows: readonly (RowLayout | undefined)[];
  /** Batch axis of each output; -1 where rows have none to be counted on. */
  readonly outputAxes: readonly number[];
  readonly cost: CostEstimate;
}

/** Whether requests of a bundle may share executions and be padded: every tensor has rows, every module a size. */
export function isCoalescable({ executable, modules }: Bundle): boolean {
  const { inputs, outputs } = executable;
  const batched = [...inputs, ...outputs].every((spec) => spec.batchAxis >= 0);
  return inputs.length > 0 && batched && modules.every(({ batchSize }) => batchSize > 0);
}

/** `costEmaAlpha` in (0, 1] is what the newest measurement counts in the unit's estimated cost. */
export function makeUnit(bundle: Bundle, module: ModuleFile, executable: Executable, costEmaAlpha: number): Unit {
  const { inputs, outputs } = bundle.executable;
  const coalescable = isCoalescable(bundle);
  const inputTypes = executable.parameters.slice(0, inputs.length);
  const rowsOf = ({ batchAxis }: TensorSpec, { dtype, shape }: TensorType) =>
    coalescable ? rowLayout(dtype, shape, batchAxis) : undefined;
  return {
    variant: module.variant,
    batchSize: module.batchSize,
    executable,
    layout: slabLayout(inputTypes, executable.results),
    inputRows: inputs.map((spec, index) => rowsOf(spec, inputTypes[index]!)),
    outputRows: outputs.map((spec, index) => rowsOf(spec, executable.results[index]!)),
    outputAxes: outputs.map((spec) => (coalescable ? spec.batchAxis : -1)),
    cost: new CostEstimate(executable.storedCostNs, costEmaAlpha),
  };
}

// Model: one generation of a bundle, compiled, its weights on the device, ready to be queued for.
//
// Made by load.ts, found by name in the registry. A Call binds to one Model and stays with it, so a later reload can
// swap the registry's entry while the old generation drains. Used by infer/ and service/.

import type { Bundle } from "../bundle/bundle.ts";
import type { Executable, SlabLayout, Weights } from "../device/device.ts";
import type { HookSet } from "../hooks/pool.ts";
import type { ModelQueue } from "../schedule/ticket.ts";
import type { RowLayout } from "../tensor/rows.ts";
import type { CostEstimate } from "./cost.ts";
import type { ModelStatistics } from "./statistics.ts";

/** One compiled module of a model, with the slab that its execution needs. */
export interface Unit {
  readonly variant: number;
  /** 0 for key 0. */
  readonly batchSize: number;
  readonly executable: Executable;
  readonly layout: SlabLayout;
  /** How rows lie in each slab input; undefined for an input without a batch axis. */
  readonly inputRows: readonly (RowLayout | undefined)[];
  readonly outputRows: readonly (RowLayout | undefined)[];
  readonly cost: CostEstimate;
}

export interface Model extends AsyncDisposable {
  readonly name: string;
  readonly generation: number;
  readonly bundle: Bundle;
  readonly queue: ModelQueue;
  /** Units by variant, then by batch size as in `queue.rules.sizes`. */
  readonly units: readonly (readonly Unit[])[];
  readonly weights: Weights | undefined;
  readonly hooks: HookSet | undefined;
  readonly statistics: ModelStatistics;
}

/** The unit that a batch of this size executes. */
export function unitOf(model: Model, variant: number, batchSize: number): Unit {
  const unit = model.units[variant]?.find((candidate) => candidate.batchSize === batchSize);
  if (!unit) throw new Error(`model '${model.name}': no unit of variant ${variant}, batch size ${batchSize}`);
  return unit;
}

/** The largest batch one execution takes; 0 when requests are never coalesced. */
export function maxBatchSize(model: Model): number {
  const { rules } = model.queue;
  if (!rules.coalescable) return 0;
  return Math.min(Math.max(...rules.sizes.map((sizes) => sizes.at(-1)!)), rules.maxBatchSize);
}

// Model: one generation of a bundle, compiled, its weights on the device, ready to be queued for.
//
// Made by load.ts, found by name in the registry. A Call binds to one Model and stays with it, so a later reload can
// swap the registry's entry while the old generation drains. Used by infer/ and service/.

import type { Bundle } from "../bundle/bundle.ts";
import type { Weights } from "../device/device.ts";
import type { HookSet } from "../hooks/pool.ts";
import { type ModelQueue, rowLimit } from "../schedule/ticket.ts";
import type { ModelStatistics } from "./statistics.ts";
import type { Unit } from "./unit.ts";

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

/** Rows that one execution of a variant takes at most; Infinity when a request is never split. */
export function rowsMax(model: Model, variant: number): number {
  const { rules } = model.queue;
  return rules.coalescable ? rowLimit(rules, variant) : Number.POSITIVE_INFINITY;
}

/** The largest batch one execution takes; 0 when requests are never coalesced. */
export function maxBatchSize(model: Model): number {
  const { rules } = model.queue;
  if (!rules.coalescable) return 0;
  return Math.max(...rules.sizes.map((_, variant) => rowLimit(rules, variant)));
}

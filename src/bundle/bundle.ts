// Bundle: a directory that was read and found good, as plain data. Nothing here is compiled or loaded yet.
//
// `loadBundle` (load.ts) makes it from a directory; model/ turns it into a Model. All shapes are in wire order; modules
// and weights are named by absolute paths inside the directory.

import type { Signature } from "../tensor/signature.ts";
import type { WeightsSource } from "../tensor/weights.ts";

/** Sizes of the variable axes by letter; {} for a model without variants. */
export interface Variant {
  readonly sizes: Readonly<Record<string, number>>;
}

/** One module file. `batchSize` 0 is "key 0": a module that serves whatever it was compiled for, never coalesced. */
export interface ModuleFile {
  readonly variant: number;
  readonly batchSize: number;
  readonly path: string;
}

export interface Bundle {
  /** The directory's name: the model's name. */
  readonly name: string;
  readonly directory: string;
  readonly formatVersion: "2.0" | "3.0";
  readonly description: string;
  /** What the executable takes and returns, weights left out. At least one output; inputs may be none. */
  readonly executable: Signature;
  /** What clients send and get; the same object as `executable` unless the manifest says otherwise. */
  readonly client: Signature;
  /** At least one. */
  readonly variants: readonly Variant[];
  /** Sorted by variant, then batch size. */
  readonly modules: readonly ModuleFile[];
  readonly weights: WeightsSource;
  /** Batch sizes that every variant has a module of, ascending; empty where modules are of batch size 0. */
  readonly compiledBatchSizes: readonly number[];
  readonly maxQueueDelayUs: number;
  readonly priorityLevels: number;
  readonly warmup: boolean;
  readonly compileOptions: Readonly<Record<string, string | number | boolean>>;
  /** Absent without model.ts. */
  readonly hooks: { readonly file: string; readonly timeLimitMs: number } | undefined;
  readonly provenance: Readonly<Record<string, unknown>>;
  /** Findings that do not stop the bundle, e.g. a `name` that differs from the directory's. */
  readonly warnings: readonly string[];
}

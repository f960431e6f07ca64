// What a model's tensors look like: named, typed, with fixed, variable and batch axes, always in wire order.
//
// A TensorSpec comes from a manifest (bundle/); a TensorType is a concrete dtype and shape, as an executable has it.
// Used by bundle/, device/, model/, infer/ and service/.

import type { Dtype } from "./dtype.ts";
import type { Shape } from "./shape.ts";

/** One axis of a TensorSpec. `size` is -1 unless fixed. The letter ties equal variable axes of several tensors. */
export interface Axis {
  readonly letter: string;
  readonly kind: "batch" | "variable" | "fixed";
  readonly size: number;
}

export interface TensorSpec {
  readonly name: string;
  readonly dtype: Dtype;
  /** In wire order (row-major), also for a 2.0 manifest. */
  readonly axes: readonly Axis[];
  /** Index into `axes` of the batch axis; -1 when there is none. */
  readonly batchAxis: number;
  /** True for a 2.0 manifest, whose author wrote the axes in reverse; messages name axes as written. */
  readonly reversed: boolean;
}

/** The tensors of one view of a model: what clients send and get, or what the executable takes and returns. */
export interface Signature {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
}

/** A concrete tensor type: one parameter or result of an executable. */
export interface TensorType {
  readonly dtype: Dtype;
  readonly shape: Shape;
}

/** The shape in wire order with -1 for batch and variable axes, as metadata shows it. */
export function wireShape(spec: TensorSpec): number[] {
  return spec.axes.map((axis) => axis.size);
}

/** 1-based position of a wire axis as the manifest's author wrote it. */
export function manifestAxis(spec: TensorSpec, wireAxis: number): number {
  return spec.reversed ? spec.axes.length - wireAxis : wireAxis + 1;
}

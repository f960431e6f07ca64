// Where each weight argument of a model lies in its safetensors file, and how the executable wants it.
//
// bundle/ writes these, checked against the file's header; device/ packs them into an Image. A 2.0 bundle's weights of
// rank 2 and more lie with all axes reversed (`transposed`); everybody else's lie as the argument wants them.

import type { TensorType } from "./signature.ts";

/** One weight argument, in argument order. */
export interface WeightArgument extends TensorType {
  readonly name: string;
  /** Byte offset in the file, header included. */
  readonly fileOffset: number;
  readonly byteLength: number;
  /** True when the file holds the tensor with all axes reversed: it must be physically transposed. */
  readonly transposed: boolean;
}

/** All weights of a model; `file` is absent when it has none. */
export interface WeightsSource {
  readonly file: string | undefined;
  readonly arguments: readonly WeightArgument[];
}

// The type and dimensions of an array, laid out for C once, so that a transfer of it allocates nothing.
//
// Immutable, and alive as long as anything refers to it; arrays are dense and major to minor (row-major). Types are the
// numbers of PJRT_Buffer_Type, which tensor/dtype.ts gives names. Used for buffers and transfers.

import { type Address, addressOf, int64Array } from "../memory.ts";

export class HostShape {
  /** Where the dimensions lie as int64_t. */
  readonly dimsAddress: Address;
  private readonly words: Uint32Array<ArrayBuffer>;

  constructor(
    /** PJRT_Buffer_Type, e.g. 11 for F32. */
    readonly type: number,
    readonly dims: readonly number[],
  ) {
    this.words = int64Array(dims);
    this.dimsAddress = addressOf(this.words);
  }
}

// Slabs: where the tensors of one execution lie in one piece of native memory, and who still needs that memory.
//
// The layout is the device's own (inputs, then outputs, each at a 256-byte offset), so that all inputs are one transfer
// and every tensor is aligned for CPU zero-copy (64) and for GPU parameters (16). A slab lives until its last
// reference is given back. Used by slab-pool.ts, by both devices, and by infer/ through the Slab interface.

import type { Address } from "../../ffi/memory.ts";
import { assert, ServerError } from "../base/errors.ts";
import { byteCount, formatShape } from "../tensor/shape.ts";
import type { TensorType } from "../tensor/signature.ts";
import type { Slab, SlabLayout, SlabSlot } from "./device.ts";

/** Every tensor of a slab or an image starts at a multiple of this many bytes. */
export const TENSOR_ALIGNMENT_BYTES = 256;

/** `byteLength` rounded up to the alignment of tensors. */
export function alignTensor(byteLength: number): number {
  return Math.ceil(byteLength / TENSOR_ALIGNMENT_BYTES) * TENSOR_ALIGNMENT_BYTES;
}

/**
 * Lays out the batch inputs (weights not among them), then the outputs, of one execution.
 * Errors: INVALID_ARGUMENT for a tensor that has no byte count (BYTES, or a product that overflows).
 */
export function slabLayout(inputs: readonly TensorType[], outputs: readonly TensorType[]): SlabLayout {
  let end = 0;
  const place = ({ dtype, shape }: TensorType): SlabSlot => {
    const byteLength = byteCount(dtype, shape);
    if (byteLength === undefined) {
      throw new ServerError("INVALID_ARGUMENT", `no executable tensor can be ${dtype}${formatShape(shape)}`);
    }
    const offset = end;
    end = alignTensor(end + byteLength);
    return { dtype, shape, offset, byteLength };
  };
  const inputSlots = inputs.map(place);
  const inputByteLength = end;
  return { inputs: inputSlots, outputs: outputs.map(place), inputByteLength, byteLength: end };
}

/** One piece of memory that slabs are cut from. It remembers its last views, since batches of a model look alike. */
export interface SlabBlock {
  readonly buffer: ArrayBuffer;
  /** Address of the first byte; 0 where no native code reads it. */
  readonly address: Address;
  views: SlabViews | undefined;
}

interface SlabViews {
  readonly layout: SlabLayout;
  readonly inputs: readonly Uint8Array[];
  readonly outputs: readonly Uint8Array[];
}

/** A lease of a block, counted by its holders. */
export class LeasedSlab implements Slab {
  private readonly views: SlabViews;
  private references = 1;

  constructor(
    readonly block: SlabBlock,
    readonly layout: SlabLayout,
    private readonly onLastRelease: () => void,
  ) {
    if (block.views?.layout !== layout) {
      const view = ({ offset, byteLength }: SlabSlot) => new Uint8Array(block.buffer, offset, byteLength);
      block.views = { layout, inputs: layout.inputs.map(view), outputs: layout.outputs.map(view) };
    }
    this.views = block.views;
  }

  get inputs(): readonly Uint8Array[] {
    assert(this.references > 0, "a slab is read after its last release");
    return this.views.inputs;
  }

  get outputs(): readonly Uint8Array[] {
    assert(this.references > 0, "a slab is read after its last release");
    return this.views.outputs;
  }

  /** Where native code finds the slab; 0 where none looks. */
  get nativeAddress(): Address {
    return this.block.address;
  }

  retain(): void {
    assert(this.references > 0, "a slab is retained after its last release");
    this.references++;
  }

  release(): void {
    assert(this.references > 0, "a slab is released more often than retained");
    if (--this.references === 0) this.onLastRelease();
  }
}

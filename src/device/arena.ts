// Device memory that we divide ourselves: one large buffer, written in pieces, read through views.
//
// On CUDA an upload into fresh memory waits for running work, so memory is taken once and reused. ArenaSpace says who has
// which bytes, DeviceArena holds them. Space is freed only when no execution reads it any more: that order is the host's
// to keep, since views carry no events. Used by pjrt.ts (space) and loader.ts (memory).

import type { Address } from "../../ffi/memory.ts";
import type { PinnedMemory, PjrtBuffer } from "../../ffi/pjrt/buffer.ts";
import type { PjrtClient } from "../../ffi/pjrt/client.ts";
import type { PjrtDevice } from "../../ffi/pjrt/device.ts";
import { HostShape } from "../../ffi/pjrt/host-shape.ts";
import { PjrtTransfer } from "../../ffi/pjrt/transfer.ts";
import { assert } from "../base/errors.ts";
import { DTYPES } from "../tensor/dtype.ts";
import { alignTensor, TENSOR_ALIGNMENT_BYTES } from "./slab.ts";

/** What another thread needs to write and view the arena. */
export interface ArenaHandle {
  readonly transfer: Address;
  /** Device address of the first byte. */
  readonly base: Address;
  readonly byteLength: number;
}

export class DeviceArena implements Disposable {
  constructor(
    readonly transfer: PjrtTransfer,
    private readonly buffer: PjrtBuffer,
    private readonly memory: PinnedMemory,
    private readonly byteLength: number,
  ) {}

  get base(): Address {
    return this.memory.address;
  }

  get handleForThreads(): ArenaHandle {
    return { transfer: this.transfer.address, base: this.base, byteLength: this.byteLength };
  }

  [Symbol.dispose](): void {
    this.memory[Symbol.dispose]();
    this.buffer[Symbol.dispose]();
    this.transfer[Symbol.dispose]();
  }
}

// What is left is for outputs and temporaries, which the plugin allocates itself.
const ARENA_SHARE = 0.75;

/**
 * Takes `askedBytes` of device memory, or ARENA_SHARE of what the allocator has; undefined when it does not say how much
 * that is. Errors: RESOURCE_EXHAUSTED when there is not as much.
 */
export function createArena(
  client: PjrtClient,
  device: PjrtDevice,
  askedBytes: number | undefined,
): DeviceArena | undefined {
  const byteLength = askedBytes ?? shareOfLimit(device);
  if (byteLength === undefined) return undefined;
  const transfer = PjrtTransfer.create(client, device, [new HostShape(DTYPES.u8.pjrt, [byteLength])]);
  const buffer = transfer.takeBuffer(0);
  return new DeviceArena(transfer, buffer, buffer.pin(), byteLength);
}

function shareOfLimit(device: PjrtDevice): number | undefined {
  const limit = device.memoryStats()?.limitBytes;
  return limit && Math.floor((limit * ARENA_SHARE) / TENSOR_ALIGNMENT_BYTES) * TENSOR_ALIGNMENT_BYTES;
}

interface Gap {
  offset: number;
  byteLength: number;
}

/** Which bytes of an arena are free. First fit in order of address; neighbours that are free are one gap. */
export class ArenaSpace {
  private readonly gaps: Gap[];

  constructor(readonly byteLength: number) {
    this.gaps = [{ offset: 0, byteLength }];
  }

  get freeBytes(): number {
    return this.gaps.reduce((sum, gap) => sum + gap.byteLength, 0);
  }

  /** The offset of `byteLength` bytes, rounded up to the alignment of tensors; undefined when no gap is large enough. */
  allocate(byteLength: number): number | undefined {
    const needed = alignTensor(byteLength);
    if (needed === 0) return 0;
    const index = this.gaps.findIndex((gap) => gap.byteLength >= needed);
    const gap = this.gaps[index];
    if (!gap) return undefined;
    const { offset } = gap;
    gap.offset += needed;
    gap.byteLength -= needed;
    if (gap.byteLength === 0) this.gaps.splice(index, 1);
    return offset;
  }

  /** Gives back what `allocate(byteLength)` gave at `offset`. */
  free(offset: number, byteLength: number): void {
    const freed = { offset, byteLength: alignTensor(byteLength) };
    if (freed.byteLength === 0) return;
    let index = this.gaps.findIndex((gap) => gap.offset > offset);
    if (index < 0) index = this.gaps.length;
    const [before, after] = [this.gaps[index - 1], this.gaps[index]];
    assert(!before || before.offset + before.byteLength <= offset, "arena space is freed once");
    assert(!after || freed.offset + freed.byteLength <= after.offset, "arena space is freed once");
    this.gaps.splice(index, 0, freed);
    if (after && freed.offset + freed.byteLength === after.offset) this.merge(index);
    if (before && before.offset + before.byteLength === offset) this.merge(index - 1);
  }

  private merge(index: number): void {
    this.gaps[index]!.byteLength += this.gaps[index + 1]!.byteLength;
    this.gaps.splice(index + 1, 1);
  }
}

// The devices of a client: who they are, and what their memory allocator says.
//
// A device lives as long as its client and is not ours to destroy, so that this is a plain view over an address, which
// another thread may wrap again (`new PjrtDevice(api, address)`). Used through client.ts.

import type { StatusCode } from "../../src/base/errors.ts";
import { type Address, addressesAt, textAt } from "../memory.ts";
import type { PjrtApi } from "./api.ts";
import { PjrtError } from "./error.ts";
import { type AttributeValue, decodeNamedValues } from "./named-values.ts";

/** Allocator statistics in bytes (`allocations` is a count); undefined where the platform does not say. */
export interface PjrtMemoryStats {
  readonly inUseBytes: number;
  readonly peakInUseBytes: number | undefined;
  readonly allocations: number | undefined;
  readonly largestAllocationBytes: number | undefined;
  readonly limitBytes: number | undefined;
  readonly reservedBytes: number | undefined;
  readonly peakReservedBytes: number | undefined;
  readonly reservableLimitBytes: number | undefined;
  readonly largestFreeBlockBytes: number | undefined;
  readonly poolBytes: number | undefined;
  readonly peakPoolBytes: number | undefined;
}

export class PjrtDevice {
  constructor(
    readonly api: PjrtApi,
    readonly address: Address,
  ) {}

  /** Unique among devices of the platform, e.g. 0. */
  get id(): number {
    const call = this.api.calls.PJRT_DeviceDescription_Id;
    call.args.device_description = this.description();
    call.run();
    return call.args.id;
  }

  /** The vendor's name of the hardware, e.g. "cpu" or "NVIDIA H100 80GB HBM3". */
  get kind(): string {
    const call = this.api.calls.PJRT_DeviceDescription_Kind;
    call.args.device_description = this.description();
    call.run();
    return textAt(call.args.device_kind, call.args.device_kind_size);
  }

  /** One line for logs. */
  get debugText(): string {
    const call = this.api.calls.PJRT_DeviceDescription_DebugString;
    call.args.device_description = this.description();
    call.run();
    return textAt(call.args.debug_string, call.args.debug_string_size);
  }

  /** What the platform tells of the device, e.g. CUDA's `compute_capability`. */
  get attributes(): Record<string, AttributeValue> {
    const call = this.api.calls.PJRT_DeviceDescription_Attributes;
    call.args.device_description = this.description();
    call.run();
    return decodeNamedValues(call.args.attributes, call.args.num_attributes);
  }

  /** The CUDA ordinal or its like; -1 if undefined. */
  get localHardwareId(): number {
    const call = this.api.calls.PJRT_Device_LocalHardwareId;
    call.args.device = this.address;
    call.run();
    return call.args.local_hardware_id;
  }

  /** The kinds of memory that the device can address, e.g. ["device", "pinned_host"]. */
  get memoryKinds(): string[] {
    const call = this.api.calls.PJRT_Device_AddressableMemories;
    call.args.device = this.address;
    call.run();
    return addressesAt(call.args.memories, call.args.num_memories).map((memory) => this.memoryKind(memory));
  }

  /** The PJRT_Memory in which the device's data lies unless told otherwise. Lives as long as the client. */
  get defaultMemory(): Address {
    const call = this.api.calls.PJRT_Device_DefaultMemory;
    call.args.device = this.address;
    call.run();
    return call.args.memory;
  }

  /** The allocator's statistics, or undefined where the platform has none (CPU, and CUDA's `platform` allocator). */
  memoryStats(): PjrtMemoryStats | undefined {
    const call = this.api.calls.PJRT_Device_MemoryStats;
    const { args } = call;
    args.device = this.address;
    try {
      call.run();
    } catch (error) {
      if (error instanceof PjrtError && error.code === ("UNIMPLEMENTED" satisfies StatusCode)) return undefined;
      throw error;
    }
    const ifSet = (isSet: boolean, value: number) => (isSet ? value : undefined);
    return {
      inUseBytes: args.bytes_in_use,
      peakInUseBytes: ifSet(args.peak_bytes_in_use_is_set, args.peak_bytes_in_use),
      allocations: ifSet(args.num_allocs_is_set, args.num_allocs),
      largestAllocationBytes: ifSet(args.largest_alloc_size_is_set, args.largest_alloc_size),
      limitBytes: ifSet(args.bytes_limit_is_set, args.bytes_limit),
      reservedBytes: ifSet(args.bytes_reserved_is_set, args.bytes_reserved),
      peakReservedBytes: ifSet(args.peak_bytes_reserved_is_set, args.peak_bytes_reserved),
      reservableLimitBytes: ifSet(args.bytes_reservable_limit_is_set, args.bytes_reservable_limit),
      largestFreeBlockBytes: ifSet(args.largest_free_block_bytes_is_set, args.largest_free_block_bytes),
      poolBytes: ifSet(args.pool_bytes_is_set, args.pool_bytes),
      peakPoolBytes: ifSet(args.peak_pool_bytes_is_set, args.peak_pool_bytes),
    };
  }

  private description(): Address {
    const call = this.api.calls.PJRT_Device_GetDescription;
    call.args.device = this.address;
    call.run();
    return call.args.device_description;
  }

  private memoryKind(memory: Address): string {
    const call = this.api.calls.PJRT_Memory_Kind;
    call.args.memory = memory;
    call.run();
    return textAt(call.args.kind, call.args.kind_size);
  }
}

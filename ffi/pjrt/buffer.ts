// A device buffer: made from host memory or as a view of device memory, read back to host memory.
//
// Host memory is an address that the caller keeps alive: until the call returns (copy), until the returned event is ready
// (until transfer completes), or as long as the buffer lives (zero-copy). Nothing here blocks; what is not finished on
// return says so by an event. Used by device/, inputs and outputs of executable.ts.

import { type Address, handleCounter, int64sAt, NULL } from "../memory.ts";
import { doNothing } from "../posix/libc.ts";
import type { PjrtApi } from "./api.ts";
import type { PjrtClient } from "./client.ts";
import type { PjrtDevice } from "./device.ts";
import { PjrtEvent } from "./event.ts";
import { type Ownership, PjrtHandle } from "./handle.ts";
import type { HostShape } from "./host-shape.ts";

/** PJRT_HostBufferSemantics. */
const SEMANTICS = { copy: 0, untilTransferCompletes: 1, zeroCopy: 2 } as const;

/** A buffer, and the event after which PJRT no longer reads the host memory that it was made from. */
export interface BufferWithRelease {
  readonly buffer: PjrtBuffer;
  readonly hostReleased: PjrtEvent;
}

const buffers = handleCounter("buffer");

export class PjrtBuffer extends PjrtHandle {
  private constructor(api: PjrtApi, handle: Address, ownership: Ownership) {
    super(api, handle, ownership, buffers);
  }

  /** Takes over a buffer that PJRT gave, or that another thread released. */
  static adopt(api: PjrtApi, handle: Address): PjrtBuffer {
    return new PjrtBuffer(api, handle, "owned");
  }

  /** Uses a buffer that is owned elsewhere. */
  static borrow(api: PjrtApi, handle: Address): PjrtBuffer {
    return new PjrtBuffer(api, handle, "borrowed");
  }

  /** Copies the array at `source`, which is free again on return. */
  static copyFromHost(client: PjrtClient, device: PjrtDevice, source: Address, shape: HostShape): PjrtBuffer {
    const { args } = startFromHost(client, device, source, shape, SEMANTICS.copy);
    const { buffer, done_with_host_buffer } = args;
    destroyEvent(client.api, done_with_host_buffer);
    return new PjrtBuffer(client.api, buffer, "owned");
  }

  /** Starts a transfer that reads `source` until `hostReleased` is ready. */
  static transferFromHost(
    client: PjrtClient,
    device: PjrtDevice,
    source: Address,
    shape: HostShape,
  ): BufferWithRelease {
    return withRelease(client.api, startFromHost(client, device, source, shape, SEMANTICS.untilTransferCompletes).args);
  }

  /**
   * Uses `source` in place where the platform can, and promises not to write to it. On the CPU that needs 64-byte
   * alignment (otherwise it copies silently), and `hostReleased` is ready only when the buffer is gone; accelerators
   * transfer, as `transferFromHost`.
   */
  static aliasHost(client: PjrtClient, device: PjrtDevice, source: Address, shape: HostShape): BufferWithRelease {
    return withRelease(client.api, startFromHost(client, device, source, shape, SEMANTICS.zeroCopy).args);
  }

  /**
   * An array that lies at `source` in the memory of `device`, owned by someone else, who keeps it alive. The view carries
   * no definition event: the host orders writes before executions that read it, and executions before overwriting.
   */
  static viewOfDevice(client: PjrtClient, device: PjrtDevice, source: Address, shape: HostShape): PjrtBuffer {
    const call = client.api.calls.PJRT_Client_CreateViewOfDeviceBuffer;
    const { args } = call;
    args.client = client.address;
    args.device_buffer_ptr = source;
    args.dims = shape.dimsAddress;
    args.num_dims = shape.dims.length;
    args.element_type = shape.type;
    args.device = device.address;
    // Optional by the header, but the CPU plugins call it without looking when the view ends.
    args.on_delete_callback = doNothing;
    call.run();
    return new PjrtBuffer(client.api, args.buffer, "owned");
  }

  /** PJRT_Buffer_Type. */
  get type(): number {
    const call = this.api.calls.PJRT_Buffer_ElementType;
    call.args.buffer = this.address;
    call.run();
    return call.args.type;
  }

  get dims(): number[] {
    const call = this.api.calls.PJRT_Buffer_Dimensions;
    call.args.buffer = this.address;
    call.run();
    return int64sAt(call.args.dims, call.args.num_dims);
  }

  /** Bytes that the array takes on the device, padding included. */
  get onDeviceBytes(): number {
    const call = this.api.calls.PJRT_Buffer_OnDeviceSizeInBytes;
    call.args.buffer = this.address;
    call.run();
    return call.args.on_device_size_in_bytes;
  }

  /** Bytes that `toHost` writes. */
  get hostBytes(): number {
    const call = this.api.calls.PJRT_Buffer_ToHostBuffer;
    call.args.src = this.address;
    call.args.dst = NULL;
    call.args.dst_size = 0;
    call.run();
    return call.args.dst_size;
  }

  /** Starts a copy of the array to `target`, which has room for `targetBytes`; it is there when the event is ready. */
  toHost(target: Address, targetBytes: number): PjrtEvent {
    const call = this.api.calls.PJRT_Buffer_ToHostBuffer;
    call.args.src = this.address;
    call.args.dst = target;
    call.args.dst_size = targetBytes;
    call.run();
    return PjrtEvent.adopt(this.api, call.args.event);
  }

  /** Starts a copy of `byteLength` bytes from `offsetBytes` in the buffer to `target`. UNIMPLEMENTED on some platforms. */
  rawToHost(target: Address, offsetBytes: number, byteLength: number): PjrtEvent {
    const call = this.api.calls.PJRT_Buffer_CopyRawToHost;
    call.args.buffer = this.address;
    call.args.dst = target;
    call.args.offset = offsetBytes;
    call.args.transfer_size = byteLength;
    call.run();
    return PjrtEvent.adopt(this.api, call.args.event);
  }

  /** Ready when the array is, or with the error of what should have made it. */
  readyEvent(): PjrtEvent {
    const call = this.api.calls.PJRT_Buffer_ReadyEvent;
    call.args.buffer = this.address;
    call.run();
    return PjrtEvent.adopt(this.api, call.args.event);
  }

  /** Keeps the buffer's device memory where it is until the result is disposed, and says where that is. */
  pin(): PinnedMemory {
    const increase = this.api.calls.PJRT_Buffer_IncreaseExternalReferenceCount;
    increase.args.buffer = this.address;
    increase.run();
    return new PinnedMemory(this);
  }

  protected override destroy(handle: Address): void {
    const call = this.api.calls.PJRT_Buffer_Destroy;
    call.args.buffer = handle;
    call.run();
  }
}

/** A buffer's device memory, held in place. Dispose it before the buffer. */
export class PinnedMemory implements Disposable {
  /** A device address: on the CPU one of this process, elsewhere only good for views and drivers. */
  readonly address: Address;
  private ended = false;

  constructor(private readonly buffer: PjrtBuffer) {
    const call = buffer.api.calls.PJRT_Buffer_OpaqueDeviceMemoryDataPointer;
    call.args.buffer = buffer.address;
    call.run();
    this.address = call.args.device_memory_ptr;
  }

  [Symbol.dispose](): void {
    if (this.ended) return;
    this.ended = true;
    const call = this.buffer.api.calls.PJRT_Buffer_DecreaseExternalReferenceCount;
    call.args.buffer = this.buffer.address;
    call.run();
  }
}

function startFromHost(client: PjrtClient, device: PjrtDevice, source: Address, shape: HostShape, semantics: number) {
  const call = client.api.calls.PJRT_Client_BufferFromHostBuffer;
  const { args } = call;
  args.client = client.address;
  args.data = source;
  args.type = shape.type;
  args.dims = shape.dimsAddress;
  args.num_dims = shape.dims.length;
  args.host_buffer_semantics = semantics;
  args.device = device.address;
  call.run();
  return call;
}

function withRelease(api: PjrtApi, args: { buffer: Address; done_with_host_buffer: Address }): BufferWithRelease {
  return {
    buffer: PjrtBuffer.adopt(api, args.buffer),
    hostReleased: PjrtEvent.adopt(api, args.done_with_host_buffer),
  };
}

function destroyEvent(api: PjrtApi, event: Address): void {
  const call = api.calls.PJRT_Event_Destroy;
  call.args.event = event;
  call.run();
}

// Device buffers that are written in pieces: PJRT's AsyncHostToDeviceTransferManager.
//
// The buffers exist at once, uninitialised; `write` fills a range and gives an event. As long as no write is the last one of
// a buffer, it stays writable: an arena of device memory, read through views (buffer.ts: viewOfDevice). Dispose the transfer
// only after its writes are done. Used by device/.

import { type Address, handleCounter } from "../memory.ts";
import type { PjrtApi } from "./api.ts";
import { PjrtBuffer } from "./buffer.ts";
import type { PjrtClient } from "./client.ts";
import type { PjrtDevice } from "./device.ts";
import { PjrtEvent } from "./event.ts";
import { type Ownership, PjrtHandle } from "./handle.ts";
import type { HostShape } from "./host-shape.ts";
import { ShapeSpec } from "./structs.ts";

const transfers = handleCounter("transfer");

export class PjrtTransfer extends PjrtHandle {
  /** Bytes of each buffer. */
  readonly bufferBytes: readonly number[];

  private constructor(api: PjrtApi, handle: Address, ownership: Ownership) {
    super(api, handle, ownership, transfers);
    this.bufferBytes = bufferSizes(api, handle);
  }

  /** Allocates one buffer for each of `shapes` in the default memory of `device`. */
  static create(client: PjrtClient, device: PjrtDevice, shapes: readonly HostShape[]): PjrtTransfer {
    const specs = ShapeSpec.allocateArray(shapes.length);
    for (const [index, shape] of shapes.entries()) {
      const spec = specs[index]!;
      spec.struct_size = ShapeSpec.size;
      spec.dims = shape.dimsAddress;
      spec.num_dims = shape.dims.length;
      spec.element_type = shape.type;
    }
    const memory = device.defaultMemory;
    const call = client.api.calls.PJRT_Client_CreateBuffersForAsyncHostToDevice;
    call.args.client = client.address;
    call.args.shape_specs = specs[0]!.address;
    call.args.num_shape_specs = shapes.length;
    call.args.memory = memory;
    call.run();
    return new PjrtTransfer(client.api, call.args.transfer_manager, "owned");
  }

  /** Uses, in any thread, a transfer that is owned elsewhere. */
  static borrow(api: PjrtApi, handle: Address): PjrtTransfer {
    return new PjrtTransfer(api, handle, "borrowed");
  }

  /** Takes buffer `index` out, once; it can be used before it is written, and must be disposed by the caller. */
  takeBuffer(index: number): PjrtBuffer {
    this.checkRange(index, 0, 0);
    const call = this.api.calls.PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer;
    call.args.transfer_manager = this.address;
    call.args.buffer_index = index;
    call.run();
    return PjrtBuffer.adopt(this.api, call.args.buffer_out);
  }

  /**
   * Starts writing `byteLength` bytes from `source` to `offsetBytes` of buffer `index`. `source` is free again when the
   * event is ready. With `last` the buffer becomes ready, for executions that take it as an input, and can't be written
   * again.
   */
  write(index: number, source: Address, offsetBytes: number, byteLength: number, last: boolean): PjrtEvent {
    this.checkRange(index, offsetBytes, byteLength);
    const call = this.api.calls.PJRT_AsyncHostToDeviceTransferManager_TransferData;
    const { args } = call;
    args.transfer_manager = this.address;
    args.buffer_index = index;
    args.data = source;
    args.offset = offsetBytes;
    args.transfer_size = byteLength;
    args.is_last_transfer = last;
    call.run();
    return PjrtEvent.adopt(this.api, args.done_with_h2d_transfer);
  }

  // Plugins index their list without looking, and abort some time after a range that does not fit.
  private checkRange(index: number, offsetBytes: number, byteLength: number): void {
    const size = this.bufferBytes[index];
    if (size === undefined || offsetBytes < 0 || offsetBytes + byteLength > size) {
      const range = `bytes ${offsetBytes} to ${offsetBytes + byteLength} of buffer ${index}`;
      throw new Error(`invariant broken: ${range} in a transfer of [${this.bufferBytes}] bytes`);
    }
  }

  protected override destroy(handle: Address): void {
    const call = this.api.calls.PJRT_AsyncHostToDeviceTransferManager_Destroy;
    call.args.transfer_manager = handle;
    call.run();
  }
}

function bufferSizes(api: PjrtApi, transfer: Address): number[] {
  const count = api.calls.PJRT_AsyncHostToDeviceTransferManager_BufferCount;
  count.args.transfer_manager = transfer;
  count.run();
  const size = api.calls.PJRT_AsyncHostToDeviceTransferManager_BufferSize;
  size.args.transfer_manager = transfer;
  return Array.from({ length: count.args.buffer_count }, (_, index) => {
    size.args.buffer_index = index;
    size.run();
    return size.args.buffer_size;
  });
}

// A PJRT client: a platform opened with options, its devices, and host memory pinned for it.
//
// Everything made with a client must be disposed before the client is. Unknown create options fail with the plugin's
// message. One client a process in production; other threads borrow it. Used by device/.

import { type Address, Arena, addressesAt, handleCounter, textAt } from "../memory.ts";
import { PjrtApi } from "./api.ts";
import { PjrtDevice } from "./device.ts";
import { type Ownership, PjrtHandle } from "./handle.ts";
import { encodeNamedValues, type OptionValue } from "./named-values.ts";

/** What another thread needs to use a client: plain data for a message. */
export interface ClientHandle {
  readonly api: Address;
  readonly client: Address;
}

const clients = handleCounter("client");

export class PjrtClient extends PjrtHandle {
  private constructor(api: PjrtApi, handle: Address, ownership: Ownership) {
    super(api, handle, ownership, clients);
  }

  /**
   * Opens the platform with `options`, e.g. `{ cpu_device_count: 1 }`, or for CUDA
   * `{ visible_devices: [0], memory_fraction: { float: 0.9 }, allocator: "bfc", preallocate: true }`.
   */
  static create(api: PjrtApi, options: Readonly<Record<string, OptionValue>> = {}): PjrtClient {
    using arena = new Arena();
    const named = encodeNamedValues(options, arena);
    const call = api.calls.PJRT_Client_Create;
    call.args.create_options = named.address;
    call.args.num_options = named.count;
    call.run();
    return new PjrtClient(api, call.args.client, "owned");
  }

  /** Uses, in any thread, a client that is owned elsewhere. */
  static borrow(handle: ClientHandle): PjrtClient {
    return new PjrtClient(PjrtApi.at(handle.api), handle.client, "borrowed");
  }

  /** What `borrow` takes, for a message to another thread. */
  get handleForThreads(): ClientHandle {
    return { api: this.api.address, client: this.address };
  }

  /** E.g. "cpu", "cuda". */
  get platformName(): string {
    const call = this.api.calls.PJRT_Client_PlatformName;
    call.args.client = this.address;
    call.run();
    return textAt(call.args.platform_name, call.args.platform_name_size);
  }

  /** Version of the platform's libraries, e.g. the CUDA version. */
  get platformVersion(): string {
    const call = this.api.calls.PJRT_Client_PlatformVersion;
    call.args.client = this.address;
    call.run();
    return textAt(call.args.platform_version, call.args.platform_version_size);
  }

  /** The devices that this process can issue work to. They live as long as the client. */
  devices(): PjrtDevice[] {
    const call = this.api.calls.PJRT_Client_AddressableDevices;
    call.args.client = this.address;
    call.run();
    const { addressable_devices, num_addressable_devices } = call.args;
    return addressesAt(addressable_devices, num_addressable_devices).map((device) => new PjrtDevice(this.api, device));
  }

  /**
   * Pins host memory (anonymous or memfd, readable and writable) for direct transfers, until the result is disposed.
   * Throws where the platform can't (the CPU plugins), so that callers probe.
   */
  dmaMap(address: Address, byteLength: number): Disposable {
    const map = this.api.calls.PJRT_Client_DmaMap;
    map.args.client = this.address;
    map.args.data = address;
    map.args.size = byteLength;
    map.run();
    return {
      [Symbol.dispose]: () => {
        const unmap = this.api.calls.PJRT_Client_DmaUnmap;
        unmap.args.client = this.address;
        unmap.args.data = address;
        unmap.run();
      },
    };
  }

  protected override destroy(handle: Address): void {
    const call = this.api.calls.PJRT_Client_Destroy;
    call.args.client = handle;
    call.run();
  }
}

// libcuda by hand, for benchmarks only: what the link gives without PJRT in between.
//
// It shares the device's primary context with XLA, so that both can run in one process. Addresses of device memory are
// numbers like all others, but only good for these calls. Used by tests/gpu and tests/bench/gpu.

import { messageOf, ServerError } from "../../src/base/errors.ts";
import { openLibrary } from "../library.ts";
import { type Address, addressOf, int64sAt, textAt } from "../memory.ts";

const SYMBOLS = {
  cuInit: { args: ["u32"], returns: "i32" },
  cuDriverGetVersion: { args: ["ptr"], returns: "i32" },
  cuDeviceGetCount: { args: ["ptr"], returns: "i32" },
  cuDeviceGet: { args: ["ptr", "i32"], returns: "i32" },
  cuDeviceGetName: { args: ["ptr", "i32", "i32"], returns: "i32" },
  cuDeviceTotalMem_v2: { args: ["ptr", "i32"], returns: "i32" },
  cuDeviceGetPCIBusId: { args: ["ptr", "i32", "i32"], returns: "i32" },
  cuDevicePrimaryCtxRetain: { args: ["ptr", "i32"], returns: "i32" },
  cuDevicePrimaryCtxRelease_v2: { args: ["i32"], returns: "i32" },
  cuCtxSetCurrent: { args: ["ptr"], returns: "i32" },
  cuMemAlloc_v2: { args: ["ptr", "u64"], returns: "i32" },
  cuMemFree_v2: { args: ["ptr"], returns: "i32" },
  cuMemHostAlloc: { args: ["ptr", "u64", "u32"], returns: "i32" },
  cuMemFreeHost: { args: ["ptr"], returns: "i32" },
  cuStreamCreate: { args: ["ptr", "u32"], returns: "i32" },
  cuStreamSynchronize: { args: ["ptr"], returns: "i32" },
  cuStreamDestroy_v2: { args: ["ptr"], returns: "i32" },
  cuMemcpyHtoDAsync_v2: { args: ["ptr", "ptr", "u64", "ptr"], returns: "i32" },
  cuMemcpyDtoHAsync_v2: { args: ["ptr", "ptr", "u64", "ptr"], returns: "i32" },
} as const;

const STREAM_NON_BLOCKING = 1;
const NAME_BYTES = 256;

type Functions = ReturnType<typeof openLibrary<typeof SYMBOLS>>;

/** A device by its ordinal. */
export interface CudaDevice {
  readonly ordinal: number;
  readonly name: string;
  readonly memoryBytes: number;
  /** As in /sys/bus/pci/devices, e.g. "0000:3b:00.0". */
  readonly pciBusId: string;
}

export class CudaDriver {
  private constructor(private readonly functions: Functions) {}

  /** Opens libcuda and initialises it. Throws FAILED_PRECONDITION with the reason where there is no driver or device. */
  static open(): CudaDriver {
    const driver = new CudaDriver(openLibrary("libcuda.so.1", SYMBOLS));
    try {
      driver.call("cuInit", 0);
    } catch (thrown) {
      throw new ServerError("FAILED_PRECONDITION", `no CUDA device: ${messageOf(thrown)}`, { cause: thrown });
    }
    if (driver.deviceCount === 0)
      throw new ServerError("FAILED_PRECONDITION", "no CUDA device: the driver counts none");
    return driver;
  }

  /** E.g. 13000 for CUDA 13.0. */
  get version(): number {
    return this.ask((out) => this.call("cuDriverGetVersion", out));
  }

  get deviceCount(): number {
    return this.ask((out) => this.call("cuDeviceGetCount", out));
  }

  device(ordinal: number): CudaDevice {
    const device = this.ask((out) => this.call("cuDeviceGet", out, ordinal));
    return {
      ordinal,
      name: this.askText((out) => this.call("cuDeviceGetName", out, NAME_BYTES, device)),
      memoryBytes: this.ask((out) => this.call("cuDeviceTotalMem_v2", out, device)),
      pciBusId: this.askText((out) => this.call("cuDeviceGetPCIBusId", out, NAME_BYTES, device)).toLowerCase(),
    };
  }

  /** Makes the device's primary context, which XLA uses too, this thread's current one, until disposed. */
  useDevice(ordinal: number): Disposable {
    const device = this.ask((out) => this.call("cuDeviceGet", out, ordinal));
    const context = this.ask((out) => this.call("cuDevicePrimaryCtxRetain", out, device));
    this.call("cuCtxSetCurrent", context);
    return { [Symbol.dispose]: () => this.call("cuDevicePrimaryCtxRelease_v2", device) };
  }

  /** Device memory, freed when disposed. */
  allocateDevice(byteLength: number): CudaMemory {
    const address = this.ask((out) => this.call("cuMemAlloc_v2", out, byteLength)) as Address;
    return new CudaMemory(address, () => this.call("cuMemFree_v2", address));
  }

  /** Pinned host memory, freed when disposed. */
  allocatePinned(byteLength: number): CudaMemory {
    const address = this.ask((out) => this.call("cuMemHostAlloc", out, byteLength, 0)) as Address;
    return new CudaMemory(address, () => this.call("cuMemFreeHost", address));
  }

  /** A stream that does not wait for the default one. */
  createStream(): CudaStream {
    return new CudaStream(
      this.ask((out) => this.call("cuStreamCreate", out, STREAM_NON_BLOCKING)) as Address,
      (name, ...args) => this.call(name, ...args),
    );
  }

  private call(name: keyof typeof SYMBOLS, ...args: number[]): void {
    const result = (this.functions[name] as unknown as (...args: number[]) => number)(...args);
    if (result !== 0) throw new ServerError("INTERNAL", `${name} failed with CUresult ${result}`);
  }

  /** Runs a call that writes one integer or pointer of up to 64 bits. */
  private ask(call: (out: Address) => void): number {
    const out = new Uint32Array(2);
    call(addressOf(out));
    return int64sAt(addressOf(out), 1)[0]!;
  }

  private askText(call: (out: Address) => void): string {
    const out = new Uint8Array(NAME_BYTES);
    call(addressOf(out));
    return textAt(addressOf(out), out.indexOf(0));
  }
}

/** Memory that libcuda gave. */
export class CudaMemory implements Disposable {
  constructor(
    readonly address: Address,
    private readonly free: () => void,
  ) {}

  [Symbol.dispose](): void {
    this.free();
  }
}

/** A queue of copies. The host memory of an asynchronous copy must stay until `synchronize` returns. */
export class CudaStream implements Disposable {
  constructor(
    private readonly address: Address,
    private readonly call: (name: keyof typeof SYMBOLS, ...args: number[]) => void,
  ) {}

  copyToDevice(target: Address, source: Address, byteLength: number): void {
    this.call("cuMemcpyHtoDAsync_v2", target, source, byteLength, this.address);
  }

  copyToHost(target: Address, source: Address, byteLength: number): void {
    this.call("cuMemcpyDtoHAsync_v2", target, source, byteLength, this.address);
  }

  /** Blocks until every copy so far is done. */
  synchronize(): void {
    this.call("cuStreamSynchronize", this.address);
  }

  [Symbol.dispose](): void {
    this.call("cuStreamDestroy_v2", this.address);
  }
}

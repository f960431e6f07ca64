// The Device interface: what the server needs of an accelerator, in long-lived memory and ordered work.
//
// Implemented by pjrt.ts (any PJRT plugin) and fake.ts (virtual time), held to one contract suite. Nothing above this
// room knows a PJRT buffer or an address. Work is FIFO: run() calls execute one at a time, in the order of the calls.

import type { Dtype } from "../tensor/dtype.ts";
import type { Shape } from "../tensor/shape.ts";
import type { TensorType } from "../tensor/signature.ts";

export interface DeviceInfo {
  /** PJRT platform name: cpu, cuda, ...; "fake" for the fake. */
  readonly platform: string;
  /** Device kind as the plugin words it, e.g. "NVIDIA H200" or "cpu". */
  readonly kind: string;
  readonly ordinal: number;
  readonly plugin: { readonly path: string; readonly apiVersion: string; readonly sha256: string };
  /** How arguments reach an execution (decision of the platform): a buffer an input, or views into one arena. */
  readonly memory: "buffers" | "arena";
}

/** Bytes. Fields that the allocator does not report are undefined. */
export interface MemoryStatistics {
  readonly inUse: number;
  readonly peakInUse: number | undefined;
  readonly limit: number | undefined;
  readonly poolBytes: number | undefined;
}

/** One StableHLO module to make executable. */
export interface ModuleSource {
  /** Names the module in messages, e.g. `minilm/model.v0.b1.mlir`. */
  readonly label: string;
  /** StableHLO text or portable bytecode. */
  readonly bytes: Uint8Array;
  /** XLA flags of this module; they win over the device's own. */
  readonly compileOptions: Readonly<Record<string, string | number | boolean>>;
}

/** Bytes, from PJRT_Executable_GetCompiledMemoryStats. */
export interface CompiledMemory {
  readonly argumentBytes: number;
  readonly outputBytes: number;
  readonly temporaryBytes: number;
  readonly generatedCodeBytes: number;
}

/** A loaded executable. Equal modules share one; each holder disposes its own handle. */
export interface Executable extends Disposable {
  /** Content key (executable-key.ts): equal keys mean the same executable. */
  readonly key: string;
  /** Entry parameters in order, weights included, as compiled; scalars have shape []. */
  readonly parameters: readonly TensorType[];
  readonly results: readonly TensorType[];
  readonly memory: CompiledMemory;
  /** Estimated floating-point operations; undefined where the plugin has no cost analysis. */
  readonly flops: number | undefined;
  /** Device nanoseconds of one execution as learned before and stored with the cached executable; undefined if new. */
  readonly storedCostNs: number | undefined;
  /** Stores the learned cost beside the cached executable. */
  storeCost(costNs: number): void;
}

/** A model's weights in device memory. */
export interface Weights extends Disposable {
  readonly byteLength: number;
}

/** Where one tensor lies in a slab. */
export interface SlabSlot {
  readonly dtype: Dtype;
  readonly shape: Shape;
  readonly offset: number;
  readonly byteLength: number;
}

/** The inputs, then the outputs, of one execution in one piece of native memory, each at a 256-byte offset. */
export interface SlabLayout {
  readonly inputs: readonly SlabSlot[];
  readonly outputs: readonly SlabSlot[];
  /** Bytes from the slab's start that hold all inputs: what one upload moves. */
  readonly inputByteLength: number;
  readonly byteLength: number;
}

/** Leased native memory for one batch. Counted: the lessee holds one reference, each reply retains another. */
export interface Slab {
  readonly layout: SlabLayout;
  /** Views in the order of the layout; invalid after the last release(), and their memory is another's then. */
  readonly inputs: readonly Uint8Array[];
  readonly outputs: readonly Uint8Array[];
  retain(): void;
  /** Gives one reference back; the last one returns the memory to the pool. */
  release(): void;
}

/** What the pool of slabs is doing. Leases that wait for long mean that replies hold its memory. */
export interface SlabUsage {
  readonly leased: number;
  /** Leases asked for and not yet given. */
  readonly waiting: number;
  /** Of all slab memory there is, leased or idle. */
  readonly heldBytes: number;
}

/** What one run cost, in nanoseconds of the device's clock. */
export interface RunTiming {
  readonly uploadNs: number;
  readonly executeNs: number;
  readonly downloadNs: number;
}

/** Disposing it waits for the work under way, then frees everything that was made with it. */
export interface Device extends AsyncDisposable {
  readonly info: DeviceInfo;
  memoryStatistics(): MemoryStatistics | undefined;
  /**
   * Compiles, or takes from the executable cache. Never blocks the caller's thread for longer than microseconds.
   * Errors: INVALID_ARGUMENT with the compiler's message for a bad module.
   */
  loadExecutable(module: ModuleSource): Promise<Executable>;
  /** Makes all arguments of an image resident. Errors: RESOURCE_EXHAUSTED when they do not fit. */
  loadWeights(image: Image): Promise<Weights>;
  /** Leases a slab; waits (FIFO) while the pool's bound is reached. Errors: RESOURCE_EXHAUSTED if it can never fit. */
  leaseSlab(layout: SlabLayout): Promise<Slab>;
  slabUsage(): SlabUsage;
  /**
   * Uploads the slab's inputs, executes with the weights, downloads the results into the slab's outputs.
   * `quick` says that it is expected to take less than handing it to another thread would: where nothing else is under
   * way the device may then run it before it returns, blocking the caller meanwhile.
   * Errors: RESOURCE_EXHAUSTED for out of memory (this run only), else INTERNAL with the plugin's message.
   */
  run(executable: Executable, weights: Weights | undefined, slab: Slab, quick?: boolean): Promise<RunTiming>;
  /** Called at most once, when the device is lost for good (a sticky error). */
  onFault: ((error: Error) => void) | undefined;
}

/** One argument inside an Image. */
export interface ImageTensor extends TensorType {
  readonly name: string;
  /** From the image's first byte; a multiple of 256, so that CPU zero-copy (64) and GPU views (16, 256) both hold. */
  readonly offset: number;
  readonly byteLength: number;
}

/** All weights of a model, packed in argument order as the executable wants them, in host memory nobody else writes. */
export interface Image extends Disposable {
  readonly digest: string;
  readonly tensors: readonly ImageTensor[];
  readonly byteLength: number;
  /** The bytes of `tensors[index]`; a view, since an image may be larger than one ArrayBuffer (4 GiB). */
  tensorBytes(index: number): Uint8Array;
}

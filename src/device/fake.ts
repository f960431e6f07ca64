// A device without hardware: it computes in JavaScript, and takes time by a clock that a test may turn by hand.
//
// It models what scheduling depends on: one FIFO link to the device with a bandwidth, one execution at a time, one FIFO
// link back, a memory limit, and failures by script. Held to the same contract as pjrt.ts (tests/contract/device.ts).
// Used by tests of infer/ and model/ and by the simulator; a module is JSON (fake-module.ts).

import { type Clock, NS_PER_S } from "../base/clock.ts";
import { assert, ServerError } from "../base/errors.ts";
import type {
  Device,
  DeviceInfo,
  Executable,
  Image,
  MemoryStatistics,
  ModuleSource,
  RunTiming,
  Slab,
  SlabLayout,
  SlabUsage,
  Weights,
} from "./device.ts";
import { FakeExecutable, type FakeModule, type FakeOperation, fakeOperations, parseFakeModule } from "./fake-module.ts";
import { LeasedSlab } from "./slab.ts";
import { collectedBlocks, SlabPool } from "./slab-pool.ts";

/** What a script answers: more time, or a failure instead of the result. */
export interface FakeOutcome {
  readonly extraNs?: number;
  readonly error?: ServerError;
  /** The device is lost: this work and all that follows fails, and onFault is called. */
  readonly sticky?: boolean;
}

/** Decides the fate of the n-th (from 0) compile, load of weights, or execution; undefined lets it be. */
export interface FakeScript {
  onCompile?(label: string, index: number): FakeOutcome | undefined;
  onLoad?(image: Image, index: number): FakeOutcome | undefined;
  onExecute?(module: FakeModule, index: number): FakeOutcome | undefined;
}

export interface FakeOptions {
  readonly clock: Clock;
  /** Bytes a second of each direction of the link. */
  readonly bandwidth: number;
  readonly compileNs: number;
  /** Nanoseconds of one execution of a module that does not say `costNs` itself. */
  readonly executeNs: (module: FakeModule) => number;
  /** Bytes for weights, slabs in flight and temporaries; no limit by default. */
  readonly memoryBytes?: number;
  readonly slabBytes?: number;
  /** Named computations beside the built-in ones. */
  readonly operations?: Readonly<Record<string, FakeOperation>>;
  readonly script?: FakeScript;
}

const DEFAULT_SLAB_BYTES = 1 << 30;

class FakeWeights implements Weights {
  disposed = false;
  constructor(
    readonly byteLength: number,
    readonly tensors: readonly Uint8Array[],
    private readonly onDispose: () => void,
  ) {}
  [Symbol.dispose](): void {
    if (this.disposed) return;
    this.disposed = true;
    this.onDispose();
  }
}

export class FakeDevice implements Device {
  onFault: ((error: Error) => void) | undefined;
  readonly info: DeviceInfo = {
    platform: "fake",
    kind: "fake",
    ordinal: 0,
    plugin: { path: "", apiVersion: "0.0", sha256: "" },
    memory: "buffers",
  };
  /** Counts of what was asked for so far, for assertions. */
  readonly counts = { compiled: 0, loaded: 0, executed: 0, bytesUp: 0, bytesDown: 0 };

  private readonly pool: SlabPool;
  private readonly operations: Readonly<Record<string, FakeOperation>>;
  private readonly costs = new Map<string, number>();
  private weightBytes = 0;
  private inFlightBytes = 0;
  private peakBytes = 0;
  // When each serial resource is free again, on the clock.
  private linkUpFreeNs = 0;
  private computeFreeNs = 0;
  private linkDownFreeNs = 0;
  private latestRun: Promise<void> = Promise.resolve();
  private lost: ServerError | undefined;

  constructor(private readonly options: FakeOptions) {
    this.pool = new SlabPool(collectedBlocks, options.slabBytes ?? DEFAULT_SLAB_BYTES, options.clock);
    this.operations = { ...fakeOperations, ...options.operations };
  }

  /** Slabs that somebody holds: 0 when all replies are released. */
  get slabsLeased(): number {
    return this.pool.usage.leased;
  }

  memoryStatistics(): MemoryStatistics {
    const inUse = this.weightBytes + this.inFlightBytes;
    return { inUse, peakInUse: this.peakBytes, limit: this.options.memoryBytes, poolBytes: undefined };
  }

  async loadExecutable(source: ModuleSource): Promise<Executable> {
    this.refuseIfLost();
    const index = this.counts.compiled++;
    const outcome = this.options.script?.onCompile?.(source.label, index);
    const module = parseFakeModule(source, this.operations);
    const key = Bun.hash(source.bytes).toString(16) + JSON.stringify(source.compileOptions);
    await this.sleepUntil(this.options.clock.nowNs() + this.options.compileNs + (outcome?.extraNs ?? 0));
    this.failIf(outcome);
    return new FakeExecutable(key, module, this.costs);
  }

  async loadWeights(image: Image): Promise<Weights> {
    this.refuseIfLost();
    const index = this.counts.loaded++;
    const outcome = this.options.script?.onLoad?.(image, index);
    this.reserve(image.byteLength, `weights of ${image.byteLength} bytes`);
    this.weightBytes += image.byteLength;
    const tensors = image.tensors.map((_, index) => image.tensorBytes(index).slice());
    await this.sleepUntil(this.takeLinkUp(image.byteLength, outcome?.extraNs ?? 0));
    const weights = new FakeWeights(image.byteLength, tensors, () => {
      this.weightBytes -= image.byteLength;
    });
    try {
      this.failIf(outcome);
    } catch (thrown) {
      weights[Symbol.dispose]();
      throw thrown;
    }
    return weights;
  }

  leaseSlab(layout: SlabLayout): Promise<Slab> {
    return this.pool.lease(layout);
  }

  slabUsage(): SlabUsage {
    return this.pool.usage;
  }

  async run(executable: Executable, weights: Weights | undefined, slab: Slab): Promise<RunTiming> {
    this.refuseIfLost();
    assert(executable instanceof FakeExecutable, "the executable is of another device");
    assert(slab instanceof LeasedSlab, "the slab is of another device");
    assert(weights === undefined || weights instanceof FakeWeights, "the weights are of another device");
    assert(!executable.disposed && !weights?.disposed, "the executable and the weights of a run are alive");
    const { module } = executable;
    const index = this.counts.executed++;
    const outcome = this.options.script?.onExecute?.(module, index);
    const bytes = slab.layout.byteLength + module.temporaryBytes;
    this.reserve(bytes, `an execution that needs ${bytes} bytes`);
    this.inFlightBytes += bytes;
    slab.retain();
    const previous = this.latestRun;
    const settled = Promise.withResolvers<void>();
    this.latestRun = settled.promise;
    try {
      const startNs = this.options.clock.nowNs();
      const uploadedNs = this.takeLinkUp(slab.layout.inputByteLength, 0);
      const executeStartNs = Math.max(uploadedNs, this.computeFreeNs);
      const executeNs = (module.costNs ?? this.options.executeNs(module)) + (outcome?.extraNs ?? 0);
      this.computeFreeNs = executeStartNs + executeNs;
      await this.sleepUntil(this.computeFreeNs);
      this.failIf(outcome);
      this.refuseIfLost();
      executable.compute(slab.inputs, weights?.tensors ?? [], slab.outputs);
      const outputBytes = slab.layout.byteLength - slab.layout.inputByteLength;
      const doneNs = this.options.clock.nowNs();
      const downloadedNs = this.takeLinkDown(outputBytes);
      const downloadNs = downloadedNs - doneNs;
      await this.sleepUntil(downloadedNs);
      return { uploadNs: uploadedNs - startNs, executeNs, downloadNs };
    } finally {
      // A machine's timers may fire out of order within a millisecond; runs settle in the order of the calls.
      await previous;
      settled.resolve();
      this.inFlightBytes -= bytes;
      slab.release();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.lost ??= new ServerError("UNAVAILABLE", "the device is shutting down");
    this.pool[Symbol.dispose]();
  }

  /** Queues a transfer on the link and returns when it will be done. */
  private takeLinkUp(byteLength: number, extraNs: number): number {
    this.counts.bytesUp += byteLength;
    const start = Math.max(this.options.clock.nowNs(), this.linkUpFreeNs);
    this.linkUpFreeNs = start + (byteLength / this.options.bandwidth) * NS_PER_S + extraNs;
    return this.linkUpFreeNs;
  }

  private takeLinkDown(byteLength: number): number {
    this.counts.bytesDown += byteLength;
    const start = Math.max(this.options.clock.nowNs(), this.linkDownFreeNs);
    this.linkDownFreeNs = start + (byteLength / this.options.bandwidth) * NS_PER_S;
    return this.linkDownFreeNs;
  }

  private sleepUntil(timeNs: number): Promise<void> {
    const delayNs = timeNs - this.options.clock.nowNs();
    if (delayNs <= 0) return Promise.resolve();
    return new Promise((resolve) => this.options.clock.after(delayNs, resolve));
  }

  private reserve(byteLength: number, what: string): void {
    const { memoryBytes } = this.options;
    const inUse = this.weightBytes + this.inFlightBytes;
    if (memoryBytes !== undefined && inUse + byteLength > memoryBytes) {
      const message = `${what} do not fit: ${inUse} of ${memoryBytes} bytes of the device are in use`;
      throw new ServerError("RESOURCE_EXHAUSTED", message);
    }
    this.peakBytes = Math.max(this.peakBytes, inUse + byteLength);
  }

  private failIf(outcome: FakeOutcome | undefined): void {
    if (outcome?.sticky && !this.lost) {
      this.lost = outcome.error ?? new ServerError("INTERNAL", "the device is lost");
      this.onFault?.(this.lost);
    }
    if (outcome?.error) throw outcome.error;
    this.refuseIfLost();
  }

  private refuseIfLost(): void {
    if (this.lost) throw this.lost;
  }
}

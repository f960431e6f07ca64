// The Device behind a PJRT plugin: keeps order and ownership, and leaves slow work to the loader, runs to the run port.
//
// Lifetimes: an executable or weights that are disposed while runs use them live until those are complete; a slab is
// retained for its run. Nothing here blocks its thread. Built by open-device.ts, held to tests/contract/device.ts.

import { PjrtApi } from "../../ffi/pjrt/api.ts";
import { PjrtDevice as NativeDevice } from "../../ffi/pjrt/device.ts";
import type { Clock } from "../base/clock.ts";
import { assert, ServerError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { ArenaSpace } from "./arena.ts";
import type { CompilePool } from "./compile-pool.ts";
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
import type { CompileEnvironment } from "./executable-key.ts";
import { Executables } from "./executables.ts";
import { IdleTrim } from "./idle-trim.ts";
import { MappedImage } from "./image.ts";
import { InputRegions } from "./input-regions.ts";
import type { OpenedClient } from "./loader.ts";
import type { LoaderPort } from "./loader-port.ts";
import { mappedBlocks } from "./mapped-blocks.ts";
import { checkRun, ExecutableHolder } from "./pjrt-executable.ts";
import { PjrtWeights, WeightsLoads } from "./pjrt-weights.ts";
import type { RunPort } from "./run-port.ts";
import { LeasedSlab } from "./slab.ts";
import { SlabPool } from "./slab-pool.ts";

export interface PjrtDeviceParts {
  readonly info: DeviceInfo;
  readonly opened: OpenedClient;
  readonly loader: LoaderPort;
  readonly runs: RunPort;
  readonly environment: CompileEnvironment;
  readonly xlaOptions: ModuleSource["compileOptions"];
  /** Undefined: compile in this process. */
  readonly compilePool: CompilePool | undefined;
  readonly slabBytes: number;
  readonly clock: Clock;
  readonly log: Logger;
}

export class PjrtDevice implements Device {
  onFault: ((error: Error) => void) | undefined;
  readonly info: DeviceInfo;
  private readonly pool: SlabPool;
  private readonly executables: Executables;
  private readonly weights: WeightsLoads;
  private readonly regions: InputRegions;
  private readonly trim: IdleTrim;
  /** Why nothing can be asked of the device any more. */
  private gone: ServerError | undefined;
  private closing: Promise<void> | undefined;

  constructor(private readonly parts: PjrtDeviceParts) {
    const { info, opened, loader, runs, environment, xlaOptions, compilePool, slabBytes, clock, log } = parts;
    this.info = info;
    this.pool = new SlabPool(mappedBlocks(), slabBytes, clock);
    this.executables = new Executables({ loader, runs, environment, xlaOptions, pool: compilePool, log });
    const space = opened.arena && new ArenaSpace(opened.arena.byteLength);
    this.weights = new WeightsLoads({ loader, runs, space, aliasHost: opened.platform === "cpu", log });
    this.regions = new InputRegions(space);
    // The loader may be busy or gone by then; another idle second will come.
    this.trim = new IdleTrim(clock, () => void loader.call("trimHeap").catch(() => {}));
  }

  memoryStatistics(): MemoryStatistics | undefined {
    if (this.gone) return undefined;
    const { client, device } = this.parts.opened;
    const stats = new NativeDevice(PjrtApi.at(client.api), device).memoryStats();
    return (
      stats && {
        inUse: stats.inUseBytes,
        peakInUse: stats.peakInUseBytes,
        limit: stats.limitBytes,
        poolBytes: stats.poolBytes,
      }
    );
  }

  async loadExecutable(module: ModuleSource): Promise<Executable> {
    if (this.gone) throw this.gone;
    const shared = await this.executables.acquire(module);
    this.trim.note();
    const holder = new ExecutableHolder(this.executables, shared);
    if (this.gone) {
      holder[Symbol.dispose]();
      throw this.gone;
    }
    return holder;
  }

  async loadWeights(image: Image): Promise<Weights> {
    if (this.gone) throw this.gone;
    assert(image instanceof MappedImage, "the image was opened by openImage");
    return this.weights.load(image);
  }

  leaseSlab(layout: SlabLayout): Promise<Slab> {
    return this.pool.lease(layout);
  }

  slabUsage(): SlabUsage {
    return this.pool.usage;
  }

  run(executable: Executable, weights: Weights | undefined, slab: Slab, quick = false): Promise<RunTiming> {
    if (this.gone) return Promise.reject(this.gone);
    assert(executable instanceof ExecutableHolder, "the executable is of this device");
    assert(weights === undefined || weights instanceof PjrtWeights, "the weights are of this device");
    assert(slab instanceof LeasedSlab, "the slab is of this device");
    const { shared } = executable;
    checkRun(executable, weights, slab.layout);
    const { inputByteLength } = slab.layout;
    shared.uses++;
    weights?.use();
    slab.retain();
    return new Promise<RunTiming>((resolve, reject) => {
      const settle = () => {
        this.trim.note();
        slab.release();
        weights?.release();
        this.executables.release(shared);
      };
      const start = (offset: number) => {
        const { runs } = this.parts;
        runs.run(shared.id, weights?.id ?? 0, slab.nativeAddress, offset, quick).then(
          (timing) => {
            this.regions.release(offset, inputByteLength);
            settle();
            resolve(timing);
          },
          (thrown) => {
            this.regions.release(offset, inputByteLength);
            settle();
            reject(this.failureOf(thrown));
          },
        );
      };
      this.regions.lease(inputByteLength, start, (refusal) => {
        settle();
        reject(refusal);
      });
    });
  }

  /** The device can't be used any more, for a reason that its user must act on. */
  lose(error: ServerError): void {
    if (this.gone) return;
    this.gone = error;
    this.onFault?.(error);
  }

  /** Waits for the runs and loads under way, then frees everything, whoever holds it. */
  [Symbol.asyncDispose](): Promise<void> {
    this.closing ??= this.close();
    return this.closing;
  }

  /** Out of memory is that run's own misfortune; after anything else, the device is asked whether it still lives. */
  private failureOf(thrown: unknown): ServerError {
    const error = ServerError.from(thrown, "execution");
    if (error.code === "RESOURCE_EXHAUSTED" || this.gone) return error;
    this.parts.loader.call("probe").catch((reason) => {
      if (ServerError.from(reason, "probe").code === "RESOURCE_EXHAUSTED") return;
      this.lose(new ServerError("INTERNAL", `the device is lost: ${error.message}`, { cause: reason }));
    });
    return new ServerError("INTERNAL", error.message, { cause: thrown });
  }

  private async close(): Promise<void> {
    const { runs, loader, compilePool, log } = this.parts;
    this.gone ??= new ServerError("UNAVAILABLE", "the device is shutting down");
    this.regions.close(this.gone);
    this.pool[Symbol.dispose]();
    this.trim[Symbol.dispose]();
    compilePool?.[Symbol.dispose]();
    const held = [...(await runs.close())];
    await this.executables.close();
    await this.weights.close();
    held.push(await loader.close());
    for (const handles of held) {
      if (Object.keys(handles).length > 0) log.warn("native handles left", { handles });
    }
  }
}

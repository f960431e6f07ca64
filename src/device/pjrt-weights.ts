// Weights in a device's memory: views into its arena, or a buffer each, which on the CPU are the mapped image itself.
//
// They live until their holder and the last run that uses them let go. The image stays mapped as long as they alias it.
// Used by pjrt.ts.

import type { Address } from "../../ffi/memory.ts";
import { assert, ServerError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { DTYPES } from "../tensor/dtype.ts";
import type { TensorType } from "../tensor/signature.ts";
import type { ArenaSpace } from "./arena.ts";
import type { Weights } from "./device.ts";
import type { MappedImage } from "./image.ts";
import type { LoaderPort } from "./loader-port.ts";
import type { RunPort } from "./run-port.ts";

interface WeightsOptions {
  readonly loader: LoaderPort;
  readonly runs: RunPort;
  readonly space: ArenaSpace | undefined;
  /** The device reads host memory in place. */
  readonly aliasHost: boolean;
  readonly log: Logger;
}

export class PjrtWeights implements Weights {
  private uses = 1;
  private disposed = false;

  constructor(
    readonly id: number,
    readonly byteLength: number,
    readonly tensors: readonly TensorType[],
    private readonly onLastRelease: () => void,
  ) {}

  get live(): boolean {
    return !this.disposed;
  }

  use(): void {
    this.uses++;
  }

  release(): void {
    assert(this.uses > 0, "weights are released as often as used");
    if (--this.uses === 0) this.onLastRelease();
  }

  [Symbol.dispose](): void {
    if (this.disposed) return;
    this.disposed = true;
    this.release();
  }
}

export class WeightsLoads {
  private readonly loading = new Set<Promise<unknown>>();
  /** How to free each that is loaded. */
  private readonly loaded = new Map<number, () => void>();
  private sequence = 0;

  constructor(private readonly options: WeightsOptions) {}

  /** Errors: RESOURCE_EXHAUSTED when they do not fit. */
  load(image: MappedImage): Promise<PjrtWeights> {
    const load = this.start(image).finally(() => this.loading.delete(load));
    this.loading.add(load);
    return load;
  }

  /** Frees all, whoever holds them, once what is loading has settled. */
  async close(): Promise<void> {
    await Promise.allSettled(this.loading);
    for (const free of [...this.loaded.values()]) free();
  }

  private async start(image: MappedImage): Promise<PjrtWeights> {
    const { loader, runs, space, aliasHost } = this.options;
    const { byteLength, tensors } = image;
    const arenaOffset = space ? space.allocate(byteLength) : 0;
    if (arenaOffset === undefined) {
      const message = `weights of ${byteLength} bytes do not fit: ${space!.freeBytes} bytes of the device's arena are free`;
      throw new ServerError("RESOURCE_EXHAUSTED", message);
    }
    const hold = image.hold();
    let buffers: Address[];
    try {
      const hostTensors = tensors.map(({ dtype, shape, offset, byteLength }, index) => ({
        type: DTYPES[dtype].pjrt,
        dims: shape,
        offset,
        byteLength,
        address: image.tensorAddress(index),
      }));
      buffers = await loader.call("loadWeights", hostTensors, arenaOffset, aliasHost);
    } catch (thrown) {
      hold[Symbol.dispose]();
      space?.free(arenaOffset, byteLength);
      throw thrown;
    }
    if (!aliasHost || space) hold[Symbol.dispose]();
    const id = ++this.sequence;
    runs.addWeights(id, buffers);
    this.loaded.set(id, () => this.free(id, buffers, arenaOffset, byteLength, aliasHost && !space ? hold : undefined));
    return new PjrtWeights(id, byteLength, tensors, () => this.loaded.get(id)?.());
  }

  private free(
    id: number,
    buffers: readonly Address[],
    arenaOffset: number,
    byteLength: number,
    hold: Disposable | undefined,
  ): void {
    const { loader, runs, space, log } = this.options;
    this.loaded.delete(id);
    runs.removeWeights(id);
    loader
      .call("releaseBuffers", buffers)
      .then(() => {
        space?.free(arenaOffset, byteLength);
        hold?.[Symbol.dispose]();
      })
      .catch((error) => log.error("weights not released", { error }));
  }
}

// The pool of slab memory: leased first come first served, bounded in bytes, and given back to the system when idle.
//
// Invariant: the blocks that exist, leased or idle, never hold more than `boundBytes`. Blocks come in size classes four
// to an octave, so that at most a fifth of a block lies unused and batches of similar size share blocks.
// Both devices own one; mapped-blocks.ts says where the real one's blocks come from.

import { NULL } from "../../ffi/memory.ts";
import type { Clock, Timer } from "../base/clock.ts";
import { ServerError } from "../base/errors.ts";
import { SLAB_BYTES_MAX, SLAB_IDLE_NS } from "../base/limits.ts";
import type { Slab, SlabLayout, SlabUsage } from "./device.ts";
import { LeasedSlab, type SlabBlock } from "./slab.ts";

/** Where blocks come from; `byteLength` is a multiple of 4096. `allocate` throws RESOURCE_EXHAUSTED when there is no more. */
export interface BlockSource {
  allocate(byteLength: number): SlabBlock;
  free(block: SlabBlock): void;
}

/** Blocks of collected memory, for a device whose executions are JavaScript. */
export const collectedBlocks: BlockSource = {
  allocate: (byteLength) => ({ buffer: new ArrayBuffer(byteLength), address: NULL, views: undefined }),
  free: () => {},
};

interface IdleBlock {
  readonly block: SlabBlock;
  readonly sinceNs: number;
}

interface Waiter {
  readonly layout: SlabLayout;
  readonly blockBytes: number;
  readonly resolve: (slab: Slab) => void;
  readonly reject: (error: ServerError) => void;
}

const SMALLEST_BLOCK_BYTES = 4096;
const STEPS_AN_OCTAVE = 4;

/** Bytes of the smallest size class that holds `byteLength`: 4, 8, 12, 16, 20, 24, 28, 32, 40, 48 ... KiB. */
export function sizeClass(byteLength: number): number {
  const octave = 2 ** Math.floor(Math.log2(Math.max(byteLength, SMALLEST_BLOCK_BYTES)));
  const step = Math.max(octave / STEPS_AN_OCTAVE, SMALLEST_BLOCK_BYTES);
  return Math.max(Math.ceil(byteLength / step) * step, SMALLEST_BLOCK_BYTES);
}

export class SlabPool implements Disposable {
  /** Idle blocks of each class, the most recently used last. */
  private readonly idle = new Map<number, IdleBlock[]>();
  private readonly waiters: Waiter[] = [];
  private heldBytes = 0;
  private leased = 0;
  private trimTimer: Timer | undefined;
  private disposed = false;

  constructor(
    private readonly source: BlockSource,
    private readonly boundBytes: number,
    private readonly clock: Clock,
  ) {}

  get usage(): SlabUsage {
    return { leased: this.leased, waiting: this.waiters.length, heldBytes: this.heldBytes };
  }

  /**
   * Waits without a bound of its own: whoever holds slabs bounds that, and `usage` shows who waits.
   * Errors: RESOURCE_EXHAUSTED when the slab can never fit, UNAVAILABLE when the pool is disposed.
   */
  lease(layout: SlabLayout): Promise<Slab> {
    const blockBytes = sizeClass(layout.byteLength);
    const bound = Math.min(this.boundBytes, SLAB_BYTES_MAX);
    if (blockBytes > bound) {
      const message = `one execution needs a slab of ${blockBytes} bytes, and slabs may hold ${bound} in all`;
      return Promise.reject(new ServerError("RESOURCE_EXHAUSTED", message));
    }
    if (this.disposed) return Promise.reject(gone());
    return new Promise((resolve, reject) => {
      this.waiters.push({ layout, blockBytes, resolve, reject });
      this.serveWaiters();
    });
  }

  /** Serves in order of arrival and stops at the first who must wait, so that a large slab is never starved by small ones. */
  private serveWaiters(): void {
    for (let first = this.waiters[0]; first; first = this.waiters[0]) {
      let block: SlabBlock | undefined;
      try {
        block = this.take(first.blockBytes);
      } catch (thrown) {
        this.waiters.shift();
        first.reject(ServerError.from(thrown, "slab memory"));
        continue;
      }
      if (!block) return;
      this.waiters.shift();
      this.leased++;
      const taken = block;
      first.resolve(new LeasedSlab(taken, first.layout, () => this.takeBack(taken)));
    }
  }

  private take(blockBytes: number): SlabBlock | undefined {
    const idle = this.idle.get(blockBytes)?.pop();
    if (idle) return idle.block;
    for (const blocks of this.idle.values()) {
      while (this.heldBytes + blockBytes > this.boundBytes && blocks.length > 0) this.free(blocks.shift()!.block);
    }
    if (this.heldBytes + blockBytes > this.boundBytes) return undefined;
    const block = this.source.allocate(blockBytes);
    this.heldBytes += blockBytes;
    return block;
  }

  private takeBack(block: SlabBlock): void {
    this.leased--;
    if (this.disposed) {
      this.free(block);
      return;
    }
    const blockBytes = block.buffer.byteLength;
    const blocks = this.idle.get(blockBytes) ?? [];
    this.idle.set(blockBytes, blocks);
    blocks.push({ block, sinceNs: this.clock.nowNs() });
    this.serveWaiters();
    this.trimTimer ??= this.clock.after(SLAB_IDLE_NS, () => this.trim());
  }

  /** Frees what lay idle for the whole of SLAB_IDLE_NS, and looks again while anything is left. */
  private trim(): void {
    this.trimTimer = undefined;
    const before = this.clock.nowNs() - SLAB_IDLE_NS;
    let remaining = 0;
    for (const blocks of this.idle.values()) {
      while (blocks.length > 0 && blocks[0]!.sinceNs <= before) this.free(blocks.shift()!.block);
      remaining += blocks.length;
    }
    if (remaining > 0) this.trimTimer = this.clock.after(SLAB_IDLE_NS, () => this.trim());
  }

  private free(block: SlabBlock): void {
    this.heldBytes -= block.buffer.byteLength;
    block.views = undefined;
    this.source.free(block);
  }

  /** Frees idle memory at once, leased memory as it comes back, and refuses who still waits. */
  [Symbol.dispose](): void {
    this.disposed = true;
    this.trimTimer?.cancel();
    for (const blocks of this.idle.values()) for (const { block } of blocks.splice(0)) this.free(block);
    for (const waiter of this.waiters.splice(0)) waiter.reject(gone());
  }
}

function gone(): ServerError {
  return new ServerError("UNAVAILABLE", "the device is shutting down");
}

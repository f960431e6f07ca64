// What the benchmarks of a CUDA machine share: sizes, timing, tables, and a chunked upload with a window.
//
// Numbers are printed, never asserted. Used by the programs beside it.

import { type Address, bytesAt, offsetAddress } from "../../../ffi/memory.ts";
import type { PjrtEvent } from "../../../ffi/pjrt/event.ts";
import type { PjrtTransfer } from "../../../ffi/pjrt/transfer.ts";
import type { NativeMemory } from "../../../ffi/posix/native-memory.ts";
import { findGpu, type Gpu } from "../../support/gpu.ts";
import { median } from "../../support/median.ts";

export const KIB = 2 ** 10;
export const MIB = 2 ** 20;
export const GIB = 2 ** 30;

/** 64 KiB to 4 GiB, each four times the one before. */
export const TRANSFER_BYTES = [64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB, 4 * GIB];

export function formatBytes(byteLength: number): string {
  if (byteLength >= GIB) return `${byteLength / GIB} GiB`;
  return byteLength >= MIB ? `${byteLength / MIB} MiB` : `${byteLength / KIB} KiB`;
}

/** Gives every page of fresh memory a frame of its own; until then all of them are one page of zeros. */
export function touch({ address, byteLength }: NativeMemory): void {
  for (let offset = 0; offset < byteLength; offset += GIB) {
    bytesAt(offsetAddress(address, offset), Math.min(GIB, byteLength - offset)).fill(1);
  }
}

/** Milliseconds that `action` takes. */
export function timeMs(action: () => void): number {
  const startNs = Bun.nanoseconds();
  action();
  return (Bun.nanoseconds() - startNs) / 1e6;
}

export interface Repeated {
  /** The first time, with whatever it sets up. */
  readonly firstMs: number;
  /** The median of the times after it. */
  readonly steadyMs: number;
}

/** Times `action` once, then for about `budgetMs`, at least three times and at most a thousand. */
export function repeatMs(action: () => void, budgetMs = 300): Repeated {
  const firstMs = timeMs(action);
  const times: number[] = [];
  for (let spentMs = 0; times.length < 3 || (spentMs < budgetMs && times.length < 1000); ) {
    const ms = timeMs(action);
    times.push(ms);
    spentMs += ms;
  }
  return { firstMs, steadyMs: median(times) };
}

/** GB/s, of 10^9 bytes. */
export function bandwidth(byteLength: number, ms: number): string {
  return (byteLength / 1e6 / ms).toFixed(2);
}

/** Columns padded to the widest cell. */
export function formatTable(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) => row.map((cell, column) => cell.padStart(widths[column]!)).join("  ")).join("\n");
}

/** Events in flight, at most `window` of them: adding one more waits for the oldest. */
export class Window {
  private readonly pending: PjrtEvent[] = [];

  constructor(private readonly window: number) {}

  add(event: PjrtEvent): void {
    this.pending.push(event);
    if (this.pending.length >= this.window) this.awaitOldest();
  }

  drain(): void {
    while (this.pending.length > 0) this.awaitOldest();
  }

  private awaitOldest(): void {
    using event = this.pending.shift()!;
    event.await();
  }
}

/** Writes bytes `from` to `to` of buffer 0 in chunks, with at most `outstanding` in flight, and waits for all of them. */
export function writeInChunks(
  transfer: PjrtTransfer,
  source: Address,
  { from = 0, to, chunkBytes, outstanding }: { from?: number; to: number; chunkBytes: number; outstanding: number },
): void {
  const window = new Window(outstanding);
  for (let offset = from; offset < to; offset += chunkBytes) {
    const byteLength = Math.min(chunkBytes, to - offset);
    window.add(transfer.write(0, offsetAddress(source, offset), offset, byteLength, false));
  }
  window.drain();
}

/** Runs a benchmark on the machine's CUDA device, or prints why it skips. */
export function benchmarkOnGpu(title: string, run: (gpu: Gpu) => void): void {
  const gpu = findGpu();
  if (gpu.skip !== undefined) {
    console.log(`${title}: skipped: ${gpu.skip}`);
  } else {
    console.log(title);
    run(gpu);
  }
}

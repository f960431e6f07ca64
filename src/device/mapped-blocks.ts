// Slab memory for real devices: anonymous pages, zeroed by the kernel, page-aligned, at an address that plugins read.
//
// Used by pjrt.ts as the block source of its slab pool.

import { NativeMemory } from "../../ffi/posix/native-memory.ts";
import type { SlabBlock } from "./slab.ts";
import type { BlockSource } from "./slab-pool.ts";

/** A new source; it knows its blocks, so that each is unmapped once. */
export function mappedBlocks(): BlockSource {
  const memory = new Map<SlabBlock, NativeMemory>();
  return {
    allocate(byteLength) {
      const pages = NativeMemory.map(byteLength);
      const block: SlabBlock = { buffer: pages.bytes.buffer, address: pages.address, views: undefined };
      memory.set(block, pages);
      return block;
    },
    free(block) {
      memory.get(block)![Symbol.dispose]();
      memory.delete(block);
    },
  };
}

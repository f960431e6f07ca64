// Owned native memory: aligned heap blocks, anonymous pages, mapped files. Each is freed when disposed, and counted.
//
// The address is process-wide, so that another thread may view it (memory.ts: bytesAt) as long as the owner keeps it. The
// `bytes` view must not be used after disposal. Used by device/ for slabs and images, by shm/, and by tests.

import type { Pointer } from "bun:ffi";
import { assert } from "../../src/base/errors.ts";
import { type Address, addressOf, bytesAt, type HandleCounter, handleCounter, loadUint64, NULL } from "../memory.ts";
import { errno, libc, posixError } from "./libc.ts";

const PROT_READ = 1;
const PROT_WRITE = 2;
const MAP_SHARED = 1;
const MAP_PRIVATE = 2;
const MAP_ANONYMOUS = 0x20;
const MAP_FAILED = -1;

/** madvise(2) advice. */
const ADVICE = { sequential: 2, willNeed: 3, dontNeed: 4, hugePage: 14 } as const;

const heapBlocks = handleCounter("heap block");
const mappings = handleCounter("mapping");

export class NativeMemory implements Disposable {
  private constructor(
    private start: Address,
    readonly byteLength: number,
    private readonly counter: HandleCounter,
    private readonly free: (address: Address) => void,
  ) {
    counter.live++;
  }

  /** `byteLength` bytes of the heap, uninitialised, at a multiple of `alignment` (a power of two, at least 8). */
  static allocate(byteLength: number, alignment: number): NativeMemory {
    const out = new Uint32Array(2);
    const result = libc.posix_memalign(addressOf(out) as number as Pointer, alignment, byteLength);
    if (result !== 0) throw posixError(`allocating ${byteLength} bytes aligned to ${alignment}`, result);
    const address = loadUint64(out, 0) as Address;
    return new NativeMemory(address, byteLength, heapBlocks, (block) => libc.free(block as number as Pointer));
  }

  /** `byteLength` bytes of zeroed anonymous pages. */
  static map(byteLength: number): NativeMemory {
    return mapPages(byteLength, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }

  /**
   * The open file `fd` from `offsetBytes` (a multiple of the page size), readable. The descriptor may be closed
   * afterwards. Reading past the end of a file that was truncated meanwhile kills the process.
   */
  static mapFile(fd: number, byteLength: number, offsetBytes = 0): NativeMemory {
    return mapPages(byteLength, PROT_READ, MAP_SHARED, fd, offsetBytes);
  }

  /** As `mapFile`, writable, and seen by everyone who maps the file: shared memory. */
  static mapShared(fd: number, byteLength: number, offsetBytes = 0): NativeMemory {
    return mapPages(byteLength, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offsetBytes);
  }

  /** For mapPages alone. */
  static mapped(address: Address, byteLength: number): NativeMemory {
    return new NativeMemory(address, byteLength, mappings, (start) => {
      libc.munmap(start as number as Pointer, byteLength);
    });
  }

  get address(): Address {
    assert(this.start !== NULL, `a ${this.counter.noun} is used after it was freed`);
    return this.start;
  }

  /** The memory as bytes. Makes a view at each call, of at most 4 GiB; see memory.ts. */
  get bytes(): Uint8Array<ArrayBuffer> {
    return bytesAt(this.address, this.byteLength);
  }

  /** Tells the kernel how mapped pages will be used. It is only a hint, so that a refusal is ignored. */
  advise(advice: keyof typeof ADVICE): void {
    libc.madvise(this.address as number as Pointer, this.byteLength, ADVICE[advice]);
  }

  [Symbol.dispose](): void {
    if (this.start === NULL) return;
    const { start } = this;
    this.start = NULL;
    this.counter.live--;
    this.free(start);
  }
}

function mapPages(
  byteLength: number,
  protection: number,
  flags: number,
  fd: number,
  offsetBytes: number,
): NativeMemory {
  const address = Number(libc.mmap(null, byteLength, protection, flags, fd, offsetBytes));
  if (address === MAP_FAILED) {
    throw posixError(`mapping ${byteLength} bytes${fd < 0 ? "" : ` of file descriptor ${fd}`}`, errno());
  }
  return NativeMemory.mapped(address as Address, byteLength);
}

// Native memory as numbers: the Address brand, views over it, what C calls need kept alive, and the count of live handles.
//
// An Address is a number, exact because user space addresses have 47 bits; 64-bit integers cross as two 32-bit words, so
// no call allocates a BigInt. Nothing here owns native memory (ffi/posix does): memory made here belongs to the garbage
// collector, which does not move it. Used by ffi/ only; above device/ and shm/ no number is an address.

import { type Pointer, ptr, toArrayBuffer } from "bun:ffi";

declare const brand: unique symbol;

/** An address of native memory, valid in every thread of this process. */
export type Address = number & { readonly [brand]: "address" };

export const NULL = 0 as Address;

const TWO_POW_32 = 2 ** 32;

/** The address of a view's first byte. It holds as long as the view (or its ArrayBuffer) is reachable. */
export function addressOf(view: NodeJS.TypedArray | DataView | ArrayBuffer): Address {
  // bun:ffi refuses the address of an empty view.
  return view.byteLength === 0 ? NULL : (ptr(view) as number as Address);
}

/**
 * `byteLength` bytes of native memory at `address`, seen as an ArrayBuffer and not owned by it: the view must not be used
 * after the memory is freed. At most 4 GiB, which is the engine's limit; larger memory is viewed in parts.
 */
export function arrayBufferAt(address: Address, byteLength: number): ArrayBuffer {
  if (byteLength === 0) return new ArrayBuffer(0);
  return toArrayBuffer(address as number as Pointer, 0, byteLength);
}

/** {@link arrayBufferAt} as bytes. */
export function bytesAt(address: Address, byteLength: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(arrayBufferAt(address, byteLength));
}

/** `address + offsetBytes`. */
export function offsetAddress(address: Address, offsetBytes: number): Address {
  return (address + offsetBytes) as Address;
}

/** Stores a signed or unsigned 64-bit integer whose magnitude is at most 2^53 at word `index`. */
export function storeInt64(words: Uint32Array, index: number, value: number): void {
  words[index] = value; // ECMAScript stores modulo 2^32, negative values in two's complement
  words[index + 1] = Math.floor(value / TWO_POW_32);
}

/** Loads an unsigned 64-bit integer (size_t, pointer) from word `index`; exact up to 2^53. */
export function loadUint64(words: Uint32Array, index: number): number {
  return words[index]! + words[index + 1]! * TWO_POW_32;
}

/** Loads a signed 64-bit integer from word `index`; exact for a magnitude of up to 2^53. */
export function loadInt64(words: Uint32Array, index: number): number {
  return words[index]! + (words[index + 1]! | 0) * TWO_POW_32;
}

/** `count` pointers of a native array. */
export function addressesAt(address: Address, count: number): Address[] {
  const words = new Uint32Array(arrayBufferAt(address, count * 8));
  return Array.from({ length: count }, (_, index) => loadUint64(words, index * 2) as Address);
}

/** `count` int64_t or size_t of a native array. */
export function int64sAt(address: Address, count: number): number[] {
  const words = new Uint32Array(arrayBufferAt(address, count * 8));
  return Array.from({ length: count }, (_, index) => loadInt64(words, index * 2));
}

/** `count` int32_t (or C enums) of a native array. */
export function int32sAt(address: Address, count: number): number[] {
  return Array.from(new Int32Array(arrayBufferAt(address, count * 4)));
}

const decoder = new TextDecoder();
const encoder = new TextEncoder();

/** `byteLength` bytes of UTF-8; C strings in PJRT come with their length and need no terminator. */
export function textAt(address: Address, byteLength: number): string {
  return decoder.decode(bytesAt(address, byteLength));
}

/** An array of int64_t as C sees it. */
export function int64Array(values: readonly number[]): Uint32Array<ArrayBuffer> {
  const words = new Uint32Array(values.length * 2);
  for (const [index, value] of values.entries()) storeInt64(words, index * 2, value);
  return words;
}

/** A C string's bytes, with the terminating zero. */
export function cString(text: string): Uint8Array<ArrayBuffer> {
  return encoder.encode(`${text}\0`);
}

/** What a C call reads through pointers; everything in it stays where it is until the arena is disposed. */
export class Arena implements Disposable {
  private readonly held: object[] = [];

  /** Keeps a view or a struct alive and gives its address. */
  hold(view: NodeJS.TypedArray | { readonly address: Address }): Address {
    this.held.push(view);
    return "address" in view ? view.address : addressOf(view);
  }

  /** UTF-8 bytes with a terminating zero that `byteLength` does not count. */
  text(value: string): { address: Address; byteLength: number } {
    const bytes = cString(value);
    return { address: this.hold(bytes), byteLength: bytes.byteLength - 1 };
  }

  int64s(values: readonly number[]): Address {
    return this.hold(int64Array(values));
  }

  [Symbol.dispose](): void {
    this.held.length = 0;
  }
}

/** How many handles of one kind this thread owns. */
export interface HandleCounter {
  readonly noun: string;
  live: number;
}

const counters: HandleCounter[] = [];

/** A counter for the handles called `noun`; whoever owns such handles keeps it and counts up and down. */
export function handleCounter(noun: string): HandleCounter {
  const counter = { noun, live: 0 };
  counters.push(counter);
  return counter;
}

/**
 * Native handles that this thread owns and has not given back, by noun, without those at zero. A handle that another
 * thread adopts leaves this thread's count and enters that one's.
 */
export function liveHandles(): Record<string, number> {
  return Object.fromEntries(counters.filter(({ live }) => live !== 0).map(({ noun, live }) => [noun, live]));
}

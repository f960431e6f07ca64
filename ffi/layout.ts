// Declarative C struct layouts: one row a field, and out come offsets, sizes and typed views.
//
// Field names are C's, so that a test can compare every offset with the header. A view reads and writes native or
// collected memory in place, through 32-bit words (memory.ts). Only x86-64 and arm64 Linux rules are known here: natural
// alignment, 8-byte pointers, little endian. Used by ffi/pjrt/structs.ts and ffi/pjrt/calls.ts.

import { type Address, addressOf, arrayBufferAt, loadInt64, loadUint64, storeInt64 } from "./memory.ts";

/** C types of a field: size_t, any pointer, int64_t, int or enum, float, bool. */
export type Kind = "size" | "pointer" | "i64" | "i32" | "f32" | "bool";

/** A field that shares the offset of an earlier one, as the members of a C union do. */
export interface Overlay {
  readonly over: string;
  readonly kind: Kind;
}

export type Fields = Readonly<Record<string, Kind | Overlay | Layout<Fields>>>;

type ValueOf<F> =
  F extends Layout<infer Inner>
    ? Struct<Inner>
    : F extends { kind: infer K }
      ? ValueOf<K>
      : F extends "bool"
        ? boolean
        : F extends "pointer"
          ? Address
          : number;

/** A view of one struct: its fields as properties, and where it lies. */
export type Struct<F extends Fields> = { -readonly [K in keyof F]: ValueOf<F[K]> } & { readonly address: Address };

/** The fields that a layout was made of. */
export type FieldsOf<L> = L extends Layout<infer F> ? F : never;

export interface Placement {
  readonly offset: number;
  readonly size: number;
}

export interface Layout<F extends Fields> {
  /** The name of the C struct. */
  readonly name: string;
  /** End of the last field, without trailing padding: what PJRT calls the struct size. */
  readonly size: number;
  /** C's sizeof: `size` rounded up to the alignment, the distance of array elements. */
  readonly stride: number;
  readonly alignment: number;
  readonly placements: { readonly [K in keyof F]: Placement };
  /** A zeroed struct in collected memory, which lives as long as the view. */
  allocate(): Struct<F>;
  /** `count` zeroed structs side by side; all of them live as long as any of their views. */
  allocateArray(count: number): Struct<F>[];
  /** A view of a struct in native memory. The caller vouches for its lifetime and that it is `byteLength` bytes long. */
  at(address: Address, byteLength?: number): Struct<F>;
}

const KIND_BYTES: Record<Kind, number> = { size: 8, pointer: 8, i64: 8, i32: 4, f32: 4, bool: 1 };

/** Computes the layout of the C struct `name` with these `fields`, in order. */
export function layout<const F extends Fields>(name: string, fields: F): Layout<F> {
  const placements: Record<string, Placement> = {};
  let size = 0;
  let alignment = 1;
  for (const [field, type] of Object.entries(fields)) {
    const bytes = typeof type === "string" ? KIND_BYTES[type] : "over" in type ? KIND_BYTES[type.kind] : type.stride;
    const fieldAlignment = typeof type === "object" && !("over" in type) ? type.alignment : bytes;
    const offset =
      typeof type === "object" && "over" in type ? placements[type.over]!.offset : align(size, fieldAlignment);
    placements[field] = { offset, size: bytes };
    size = Math.max(size, offset + bytes);
    alignment = Math.max(alignment, fieldAlignment);
  }
  const stride = align(size, alignment);
  const View = viewClass(fields, placements);
  const view = (buffer: ArrayBuffer, offset: number) => new View(buffer, offset) as unknown as Struct<F>;
  return {
    name,
    size,
    stride,
    alignment,
    placements: placements as Layout<F>["placements"],
    allocate: () => view(new ArrayBuffer(align(stride, 8)), 0),
    allocateArray(count) {
      const buffer = new ArrayBuffer(align(stride * count, 8));
      return Array.from({ length: count }, (_, index) => view(buffer, index * stride));
    },
    at: (address, byteLength = align(stride, 4)) => view(arrayBufferAt(address, byteLength), 0),
  };
}

function align(offset: number, alignment: number): number {
  return Math.ceil(offset / alignment) * alignment;
}

/** The memory of one struct. Properties for its fields are added to the prototype of a subclass, once a layout. */
class StructView {
  readonly words: Uint32Array<ArrayBuffer>;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly address: Address;

  constructor(buffer: ArrayBuffer, offset: number) {
    this.words = new Uint32Array(buffer, offset);
    this.bytes = new Uint8Array(buffer, offset);
    this.address = addressOf(this.bytes);
  }
}

function viewClass(fields: Fields, placements: Record<string, Placement>): typeof StructView {
  const View = class extends StructView {};
  for (const [field, type] of Object.entries(fields)) {
    const { offset } = placements[field]!;
    const descriptor =
      typeof type === "string"
        ? accessor(type, offset)
        : "over" in type
          ? accessor(type.kind, offset)
          : nestedAccessor(type, offset);
    Object.defineProperty(View.prototype, field, descriptor);
  }
  return View;
}

type Accessor = PropertyDescriptor & ThisType<StructView>;

function nestedAccessor(inner: Layout<Fields>, offset: number): Accessor {
  return {
    get() {
      return inner.at((this.address + offset) as Address);
    },
  };
}

function accessor(kind: Kind, offset: number): Accessor {
  const word = offset / 4;
  switch (kind) {
    case "size":
    case "pointer":
      return {
        get() {
          return loadUint64(this.words, word);
        },
        set(value: number) {
          storeInt64(this.words, word, value);
        },
      };
    case "i64":
      return {
        get() {
          return loadInt64(this.words, word);
        },
        set(value: number) {
          storeInt64(this.words, word, value);
        },
      };
    case "i32":
      return {
        get() {
          return this.words[word]! | 0;
        },
        set(value: number) {
          this.words[word] = value;
        },
      };
    case "bool":
      return {
        get() {
          return this.bytes[offset] !== 0;
        },
        set(value: boolean) {
          this.bytes[offset] = value ? 1 : 0;
        },
      };
    case "f32":
      return {
        get() {
          return new Float32Array(this.bytes.buffer, this.bytes.byteOffset + offset, 1)[0];
        },
        set(value: number) {
          new Float32Array(this.bytes.buffer, this.bytes.byteOffset + offset, 1)[0] = value;
        },
      };
  }
}

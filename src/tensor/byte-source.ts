// Bytes that may lie in several places: the chunks a socket delivered, a slab, a shared-memory region, a plain array.
//
// A ByteSource is a window onto bytes that somebody else owns; it never copies until asked. A message travels as
// one from net/ through wire/ into a Call, and its tensor bytes are copied once, into their rows, by assemble.

/** A read-only sequence of bytes, in one piece or several. */
export interface ByteSource {
  readonly byteLength: number;
  /** The pieces in order; none is empty unless the whole is. Views: valid as long as the owner says. */
  readonly chunks: readonly Uint8Array[];
  /** The bytes [start, end) as a source of its own; no copy. Throws RangeError when outside. */
  slice(start: number, end: number): ByteSource;
  /** Copies all bytes to `target` at `offset`. Throws RangeError when they do not fit. */
  copyTo(target: Uint8Array, offset: number): void;
  /** All bytes in one piece: a view when they lie in one piece already, else a copy. */
  contiguous(): Uint8Array;
}

const EMPTY = new Uint8Array(0);

/** A ByteSource over a list of chunks. */
export class Chunks implements ByteSource {
  readonly byteLength: number;

  private constructor(
    readonly chunks: readonly Uint8Array[],
    byteLength: number,
  ) {
    this.byteLength = byteLength;
  }

  static of(bytes: Uint8Array): Chunks {
    return new Chunks(bytes.byteLength === 0 ? [] : [bytes], bytes.byteLength);
  }

  static from(chunks: readonly Uint8Array[]): Chunks {
    let total = 0;
    let empty = false;
    for (const chunk of chunks) {
      total += chunk.byteLength;
      empty ||= chunk.byteLength === 0;
    }
    return new Chunks(empty ? chunks.filter((chunk) => chunk.byteLength > 0) : chunks, total);
  }

  slice(start: number, end: number): Chunks {
    if (start < 0 || end < start || end > this.byteLength) {
      throw new RangeError(`slice [${start}, ${end}) of ${this.byteLength} bytes`);
    }
    if (end - start === this.byteLength) return this;
    if (this.chunks.length === 1) return Chunks.of(this.chunks[0]!.subarray(start, end));
    const picked: Uint8Array[] = [];
    let position = 0;
    for (const chunk of this.chunks) {
      const from = Math.max(start - position, 0);
      const to = Math.min(end - position, chunk.byteLength);
      if (from < to) picked.push(from === 0 && to === chunk.byteLength ? chunk : chunk.subarray(from, to));
      position += chunk.byteLength;
      if (position >= end) break;
    }
    return new Chunks(picked, end - start);
  }

  copyTo(target: Uint8Array, offset: number): void {
    for (const chunk of this.chunks) {
      target.set(chunk, offset);
      offset += chunk.byteLength;
    }
  }

  contiguous(): Uint8Array {
    if (this.chunks.length === 0) return EMPTY;
    if (this.chunks.length === 1) return this.chunks[0]!;
    const whole = new Uint8Array(this.byteLength);
    this.copyTo(whole, 0);
    return whole;
  }
}

// The bounded output buffer of one connection, and the transport that it empties into.
//
// Frames are gathered here and leave in one write. Invariant: at most CONNECTION_OUTPUT_BYTES_MAX bytes of stream output
// and SLACK bytes of control frames are held; a peer that makes us owe more control frames than that, and does not read
// them, is cut off. Used by `sender.ts`.

import { assert } from "../base/errors.ts";
import { CONNECTION_OUTPUT_BYTES_MAX } from "../base/limits.ts";

/** Where bytes go: a socket, or a test's end of a pipe. */
export interface Transport {
  /** Takes as much of `bytes[start, end)` as it can now, returns how much; 0 when it is full. Drained later, it says so. */
  write(bytes: Uint8Array, start: number, end: number): number;
  /** Ends our direction after what was written. */
  shutdown(): void;
  /** Drops the connection at once. */
  terminate(): void;
}

// Most connections never owe more than a few small replies; large replies borrow a large buffer and give it back.
const SMALL_BYTES = 16 * 2 ** 10;
const SLACK_BYTES = 64 * 2 ** 10;
const LARGE_BYTES = CONNECTION_OUTPUT_BYTES_MAX + SLACK_BYTES;
const SPARE_MAX = 16;
const spare: Uint8Array[] = [];

export class OutputBuffer {
  /** Frames are written straight into `bytes` at `end`, after `reserve`. */
  bytes: Uint8Array = new Uint8Array(SMALL_BYTES);
  end = 0;
  /** The transport took less than it was given: wait until it is drained. */
  blocked = false;
  /** Bytes that the transport has taken so far. */
  writtenBytes = 0;
  private start = 0;

  constructor(private readonly transport: Transport) {}

  get heldBytes(): number {
    return this.end - this.start;
  }

  /** Bytes of stream output that may still be added. */
  get room(): number {
    return CONNECTION_OUTPUT_BYTES_MAX - (this.end - this.start);
  }

  /** Whether `bytes` more can be held, the slack included. */
  canHold(bytes: number): boolean {
    return this.end - this.start + bytes <= LARGE_BYTES;
  }

  /** Makes space for `bytes` more behind `end`; they must fit. */
  reserve(bytes: number): void {
    if (this.end + bytes <= this.bytes.length) return;
    const held = this.end - this.start;
    assert(held + bytes <= LARGE_BYTES, `${held} bytes are held and ${bytes} more came`);
    if (held + bytes <= this.bytes.length) {
      this.bytes.copyWithin(0, this.start, this.end);
    } else {
      const large = spare.pop() ?? new Uint8Array(LARGE_BYTES);
      large.set(this.bytes.subarray(this.start, this.end));
      this.bytes = large;
    }
    this.start = 0;
    this.end = held;
  }

  /** Copies `bytes[start, end)` behind what is held. */
  append(bytes: Uint8Array, start: number, end: number): void {
    const count = end - start;
    this.reserve(count);
    if (count <= 32) {
      // A loop beats the call of set() and its subarray for the blocks of a small reply.
      for (let at = 0; at < count; at++) this.bytes[this.end + at] = bytes[start + at]!;
    } else {
      this.bytes.set(start === 0 && end === bytes.length ? bytes : bytes.subarray(start, end), this.end);
    }
    this.end += count;
  }

  /** Writes what is held; true when nothing is left. */
  flush(): boolean {
    if (this.blocked) return false;
    if (this.start < this.end) {
      const taken = this.transport.write(this.bytes, this.start, this.end);
      this.start += taken;
      this.writtenBytes += taken;
      if (this.start < this.end) {
        this.blocked = true;
        return false;
      }
    }
    this.start = this.end = 0;
    return true;
  }

  /**
   * Writes `bytes[start, end)`, of at most `room` bytes, from where they are, if nothing stands before them; what the
   * transport does not take is copied. The caller's memory is free on return.
   */
  writeThrough(bytes: Uint8Array, start: number, end: number): void {
    if (this.flush()) {
      const taken = this.transport.write(bytes, start, end);
      this.writtenBytes += taken;
      start += taken;
      if (start === end) return;
      this.blocked = true;
    }
    this.append(bytes, start, end);
  }

  /** Gives a large buffer back when it is empty. */
  shrink(): void {
    if (this.bytes.length === SMALL_BYTES || this.end > 0) return;
    if (spare.length < SPARE_MAX) spare.push(this.bytes);
    this.bytes = new Uint8Array(SMALL_BYTES);
  }

  /** Drops what is held; nothing will be written any more. */
  discard(): void {
    this.start = this.end = 0;
    this.shrink();
  }
}

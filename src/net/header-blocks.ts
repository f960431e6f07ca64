// Header blocks of one connection: HEADERS and CONTINUATION put together, then decoded to a RequestHead.
//
// A client sends the same few bytes for every request once its dynamic table is filled, so recent blocks and their heads
// are kept: equal bytes at an equal table give the same head, with no decoding. Invariants: between HEADERS and its
// END_HEADERS no other frame may come; a block is decoded exactly once and in order, whatever becomes of its stream.
// Used by `http2-connection.ts`.

import { HEADER_BLOCK_FRAMES_MAX } from "../base/limits.ts";
import { ConnectionError, FLAG, H2_ERROR, HEADER_TABLE_BYTES, readUint32 } from "./frames.ts";
import { HpackDecoder, HpackError } from "./hpack-decoder.ts";
import { HeadBuilder, type RequestHead } from "./request-head.ts";

const CACHED_BLOCKS = 4;
const CACHED_BLOCK_BYTES_MAX = 256;

interface CachedBlock {
  readonly block: Uint8Array;
  readonly version: number;
  readonly head: RequestHead;
}

export class HeaderBlocks {
  /** The stream whose block is under way or complete, and what its HEADERS frame said. */
  streamId = 0;
  endStream = false;
  /** The priority part of HEADERS made the stream depend on itself. */
  selfDependent = false;
  /** A block has begun and not ended. */
  open = false;
  private frames = 0;
  private bytes: Uint8Array = new Uint8Array(0);
  private start = 0;
  private end = 0;
  private readonly decoder: HpackDecoder;
  private readonly cache: CachedBlock[] = [];
  private nextCached = 0;

  constructor(private readonly listBytesMax: number) {
    // A string longer than the list may be fails as a list; the margin lets the decoder go on and keep its table.
    this.decoder = new HpackDecoder(HEADER_TABLE_BYTES, listBytesMax * 2);
  }

  /** No header block is under way, as every frame but CONTINUATION needs it. */
  expectNone(): void {
    if (this.open) throw new ConnectionError(H2_ERROR.PROTOCOL_ERROR, "a header block was interrupted");
  }

  /** HEADERS; true when the block is complete. */
  begin(flags: number, streamId: number, bytes: Uint8Array, start: number, end: number): boolean {
    this.streamId = streamId;
    this.endStream = (flags & FLAG.END_STREAM) !== 0;
    this.selfDependent = false;
    let padding = 0;
    if (flags & FLAG.PADDED) {
      if (start === end) throw new ConnectionError(H2_ERROR.FRAME_SIZE_ERROR, "HEADERS too short");
      padding = bytes[start++]!;
    }
    if (flags & FLAG.PRIORITY) {
      if (end - start < 5) throw new ConnectionError(H2_ERROR.FRAME_SIZE_ERROR, "HEADERS too short");
      this.selfDependent = (readUint32(bytes, start) & 0x7fffffff) === streamId;
      start += 5;
    }
    if (padding > end - start) throw new ConnectionError(H2_ERROR.PROTOCOL_ERROR, "padding exceeds the HEADERS frame");
    this.bytes = bytes;
    this.start = start;
    this.end = end - padding;
    this.frames = 1;
    this.open = (flags & FLAG.END_HEADERS) === 0;
    // The frame's bytes are valid during this call only.
    if (this.open) this.own();
    return !this.open;
  }

  /** CONTINUATION; true when the block is complete. */
  goOn(flags: number, streamId: number, bytes: Uint8Array, start: number, end: number): boolean {
    if (!this.open || streamId !== this.streamId) {
      throw new ConnectionError(H2_ERROR.PROTOCOL_ERROR, "CONTINUATION without HEADERS before it");
    }
    const total = this.end + end - start;
    if (++this.frames > HEADER_BLOCK_FRAMES_MAX || total > this.listBytesMax * 2) {
      throw new ConnectionError(H2_ERROR.ENHANCE_YOUR_CALM, `header block of ${total} bytes, ${this.frames} frames`);
    }
    const grown = new Uint8Array(total);
    grown.set(this.bytes);
    grown.set(bytes.subarray(start, end), this.end);
    this.bytes = grown;
    this.end = total;
    this.open = (flags & FLAG.END_HEADERS) === 0;
    return !this.open;
  }

  /** The complete block as the head of a request. Throws ConnectionError. */
  head(): RequestHead {
    const length = this.end - this.start;
    const version = this.decoder.version;
    for (const cached of this.cache) {
      if (cached.version === version && cached.block.length === length && this.equals(cached.block)) return cached.head;
    }
    const builder = new HeadBuilder(this.listBytesMax);
    this.decode(builder);
    const head = builder.finish();
    if (this.decoder.version === version && length <= CACHED_BLOCK_BYTES_MAX) {
      this.cache[this.nextCached] = { block: this.bytes.slice(this.start, this.end), version, head };
      this.nextCached = (this.nextCached + 1) % CACHED_BLOCKS;
    }
    return head;
  }

  /** The complete block as trailers: what is wrong with them, if anything. Throws ConnectionError. */
  trailers(): string | undefined {
    const builder = new HeadBuilder(this.listBytesMax);
    this.decode(builder);
    return builder.finishTrailers();
  }

  private decode(builder: HeadBuilder): void {
    try {
      this.decoder.decode(this.bytes, this.start, this.end, builder.field);
    } catch (error) {
      if (!(error instanceof HpackError)) throw error;
      throw new ConnectionError(H2_ERROR.COMPRESSION_ERROR, error.message);
    }
  }

  private own(): void {
    this.bytes = this.bytes.slice(this.start, this.end);
    this.end -= this.start;
    this.start = 0;
  }

  private equals(block: Uint8Array): boolean {
    for (let at = 0; at < block.length; at++) {
      if (block[at] !== this.bytes[this.start + at]) return false;
    }
    return true;
  }
}

// The sending half of an HTTP/2 connection: control frames, and the output of streams under both windows.
//
// Streams with output stand in a ring and take turns. Small whole responses skip it when they fit. Invariants: DATA never
// exceeds the stream's or the connection's window, nor the bounded buffer; what is added within one turn of the event
// loop leaves in one write, by `flush`, which the owner calls when `wake` asked for it. Used by `http2-connection.ts`.

import { OUTPUT_TURN_BYTES } from "../base/limits.ts";
import {
  DEFAULT_FRAME_BYTES,
  DEFAULT_WINDOW_BYTES,
  FLAG,
  FRAME,
  FRAME_HEADER_BYTES,
  type H2ErrorCode,
  WINDOW_BYTES_MAX,
  writeFrameHeader,
  writeUint32,
} from "./frames.ts";
import { TABLE_SIZE_ZERO } from "./hpack-encoder.ts";
import type { Http2Stream, StreamSender } from "./http2-stream.ts";
import { OutputBuffer, type Transport } from "./output-buffer.ts";
import type { SendBudget } from "./send-budget.ts";

/** From here on a frame's payload is written from where it is instead of being gathered: a write costs some 64 KiB of copying. */
const WRITE_THROUGH_BYTES = 64 * 2 ** 10;

export interface SenderOwner {
  /** Output waits: call `flush` at the end of this turn of the event loop. */
  wake(): void;
  /** The stream's last frame has been handed over: RST_STREAM if `reset`, else END_STREAM. */
  sentLast(stream: Http2Stream, reset: boolean): void;
  /** More control frames are owed than the buffer may hold: the peer asks and does not read. */
  overrun(): void;
}

/** How a stream's turn ended: nothing left that it may send; more to come; the buffer or the window is full. */
type Turn = "done" | "more" | "buffer-full" | "window-full";

export class Sender implements StreamSender {
  /** The peer's settings. */
  peerFrameBytesMax = DEFAULT_FRAME_BYTES;
  peerWindowBytes = DEFAULT_WINDOW_BYTES;
  /** The peer lowered our table size: the next header block must say that it is 0 (RFC 7541, section 4.2). */
  tableSizeDue = false;
  borrowedReplies = 0;
  /** Bytes queued on the streams of this connection. */
  queuedBytes = 0;
  private controlBytes = 0;
  private window = DEFAULT_WINDOW_BYTES;
  private readonly out: OutputBuffer;
  private readonly ring: Http2Stream[] = [];
  /** Streams with data, taken out of the ring while the connection's window is empty. */
  private readonly starved: Http2Stream[] = [];
  private closed = false;

  constructor(
    transport: Transport,
    private readonly owner: SenderOwner,
    private readonly budget: SendBudget,
  ) {
    this.out = new OutputBuffer(transport);
  }

  /** Nothing is left to write. */
  get idle(): boolean {
    return this.ring.length === 0 && this.starved.length === 0 && this.out.heldBytes === 0;
  }

  /** Replies wait for the peer to take them. */
  get waiting(): boolean {
    return this.queuedBytes > 0 || this.out.heldBytes > 0;
  }

  /** Bytes of replies that the transport has taken so far; control frames, which a peer can ask for, don't count. */
  get takenBytes(): number {
    return this.out.writtenBytes - this.controlBytes;
  }

  queued(bytes: number): void {
    this.queuedBytes += bytes;
    this.budget.queuedBytes += bytes;
  }

  /**
   * Sends a whole response, copied, if it fits into the windows and the buffer at once. `prefix` stands before the
   * chunks. Returns false, with nothing done, when it does not.
   */
  sendWhole(
    stream: Http2Stream,
    headers: Uint8Array,
    prefix: Uint8Array,
    chunks: readonly Uint8Array[],
    chunkBytes: number,
    trailers: Uint8Array,
  ): boolean {
    const body = prefix.length + chunkBytes;
    const whole = body + headers.length + trailers.length + 3 * FRAME_HEADER_BYTES;
    if (stream.localClosed || !stream.idle || this.tableSizeDue || body > this.peerFrameBytesMax) return false;
    if (body > stream.sendWindow || body > this.window || whole > this.out.room) return false;
    const out = this.out;
    out.reserve(whole);
    this.writeFrame(headers, FRAME.HEADERS, FLAG.END_HEADERS, stream.id);
    out.end = writeFrameHeader(out.bytes, out.end, body, FRAME.DATA, 0, stream.id);
    out.append(prefix, 0, prefix.length);
    for (let index = 0; index < chunks.length; index++) {
      const chunk = chunks[index]!;
      out.append(chunk, 0, chunk.length);
    }
    this.writeFrame(trailers, FRAME.HEADERS, FLAG.END_HEADERS | FLAG.END_STREAM, stream.id);
    stream.sendWindow -= body;
    this.window -= body;
    this.owner.wake();
    stream.localClosed = true;
    this.owner.sentLast(stream, false);
    return true;
  }

  /** Lets a stream with output take part. */
  schedule(stream: Http2Stream): void {
    if (this.closed) {
      stream.drop();
      return;
    }
    if (stream.scheduled) return;
    stream.scheduled = true;
    this.ring.push(stream);
    this.owner.wake();
  }

  /** Sends RST_STREAM and drops what the stream had waiting. */
  reset(stream: Http2Stream, code: H2ErrorCode): void {
    if (stream.localClosed) return;
    stream.drop();
    this.resetId(stream.id, code);
    this.owner.sentLast(stream, true);
  }

  resetId(streamId: number, code: H2ErrorCode): void {
    this.control(FRAME.RST_STREAM, 0, streamId, [code]);
  }

  windowUpdate(streamId: number, bytes: number): void {
    this.control(FRAME.WINDOW_UPDATE, 0, streamId, [bytes]);
  }

  settings(pairs: readonly (readonly [id: number, value: number])[]): void {
    const payload = new Uint8Array(pairs.length * 6);
    pairs.forEach(([id, value], index) => {
      payload[index * 6 + 1] = id;
      writeUint32(payload, index * 6 + 2, value);
    });
    this.sendFrame(payload, FRAME.SETTINGS, 0);
  }

  settingsAck(): void {
    this.control(FRAME.SETTINGS, FLAG.ACK, 0, []);
  }

  ping(payload: Uint8Array, ack: boolean): void {
    this.sendFrame(payload, FRAME.PING, ack ? FLAG.ACK : 0);
  }

  goAway(lastStreamId: number, code: H2ErrorCode, reason: string): void {
    const text = new TextEncoder().encode(reason);
    const payload = new Uint8Array(8 + text.length);
    writeUint32(payload, 0, lastStreamId);
    writeUint32(payload, 4, code);
    payload.set(text, 8);
    this.sendFrame(payload, FRAME.GOAWAY, 0);
  }

  /** WINDOW_UPDATE for the connection; false when the sum overflows. */
  enlargeWindow(bytes: number): boolean {
    if (this.window + bytes > WINDOW_BYTES_MAX) return false;
    this.window += bytes;
    if (this.window > 0 && this.starved.length > 0) {
      this.ring.push(...this.starved.splice(0));
      this.owner.wake();
    }
    return true;
  }

  /** WINDOW_UPDATE or a change of the initial size for a stream; false when the sum overflows. */
  enlargeStreamWindow(stream: Http2Stream, bytes: number): boolean {
    if (stream.sendWindow + bytes > WINDOW_BYTES_MAX) return false;
    stream.sendWindow += bytes;
    if (stream.sendWindow > 0 && !stream.idle) this.schedule(stream);
    return true;
  }

  /** The transport takes bytes again. */
  drained(): void {
    this.out.blocked = false;
    this.flush();
  }

  /** Fills the buffer from the streams in turn and writes it, until nothing is left or something is full. */
  flush(): void {
    do {
      this.fill();
      if (!this.out.flush()) return;
    } while (this.ring.length > 0);
    this.out.shrink();
  }

  /** No more output: what waits is dropped by its streams, what is buffered here. */
  close(): void {
    this.closed = true;
    this.ring.length = this.starved.length = 0;
    this.out.discard();
  }

  private fill(): void {
    while (this.ring.length > 0) {
      const stream = this.ring.shift()!;
      const turn = this.takeTurn(stream);
      if (turn === "buffer-full") {
        this.ring.unshift(stream);
        return;
      }
      stream.scheduled = turn !== "done";
      if (turn === "more") this.ring.push(stream);
      else if (turn === "window-full") this.starved.push(stream);
    }
  }

  /** Sends up to OUTPUT_TURN_BYTES of a stream. */
  private takeTurn(stream: Http2Stream): Turn {
    if (stream.headers !== undefined) {
      if (!this.headerBlock(stream.id, stream.headers, false)) return "buffer-full";
      stream.headers = undefined;
    }
    let turnBytes = OUTPUT_TURN_BYTES;
    while (stream.queuedBytes > 0) {
      if (stream.sendWindow <= 0) return "done"; // enlargeStreamWindow brings it back
      if (this.window <= 0) return "window-full";
      if (turnBytes <= 0) return "more";
      const room = this.out.room - FRAME_HEADER_BYTES;
      const wanted = Math.min(this.peerFrameBytesMax, stream.sendWindow, this.window);
      // No scraps of frames just because the buffer is nearly full.
      if (room < Math.min(wanted, stream.queuedBytes, DEFAULT_FRAME_BYTES)) return "buffer-full";
      const allowed = Math.min(wanted, room);
      const inPlace = Math.min(allowed, stream.pieces[0]!.bytes.length - stream.pieceOffset);
      if (inPlace >= WRITE_THROUGH_BYTES) turnBytes -= this.dataThrough(stream, inPlace);
      else turnBytes -= this.dataGathered(stream, Math.min(allowed, stream.queuedBytes));
    }
    if (stream.endsWithData) {
      if (this.out.room < FRAME_HEADER_BYTES) return "buffer-full";
      this.out.reserve(FRAME_HEADER_BYTES);
      this.out.end = writeFrameHeader(this.out.bytes, this.out.end, 0, FRAME.DATA, FLAG.END_STREAM, stream.id);
    } else if (stream.trailers === undefined) return "done";
    else if (!this.headerBlock(stream.id, stream.trailers, true)) return "buffer-full";
    stream.endsWithData = false;
    stream.trailers = undefined;
    stream.localClosed = true;
    this.owner.sentLast(stream, false);
    return "done";
  }

  private dataThrough(stream: Http2Stream, bytes: number): number {
    this.out.reserve(FRAME_HEADER_BYTES);
    this.out.end = writeFrameHeader(this.out.bytes, this.out.end, bytes, FRAME.DATA, 0, stream.id);
    this.spend(stream, bytes);
    const start = stream.pieceOffset;
    this.out.writeThrough(stream.pieces[0]!.bytes, start, start + bytes);
    this.advance(stream, bytes);
    return bytes;
  }

  /** One DATA frame of `bytes` bytes, gathered from as many pieces as it takes. */
  private dataGathered(stream: Http2Stream, bytes: number): number {
    this.out.reserve(FRAME_HEADER_BYTES + bytes);
    this.out.end = writeFrameHeader(this.out.bytes, this.out.end, bytes, FRAME.DATA, 0, stream.id);
    this.spend(stream, bytes);
    for (let left = bytes; left > 0; ) {
      const piece = stream.pieces[0]!.bytes;
      const start = stream.pieceOffset;
      const take = Math.min(left, piece.length - start);
      this.out.append(piece, start, start + take);
      this.advance(stream, take);
      left -= take;
    }
    return bytes;
  }

  private spend(stream: Http2Stream, bytes: number): void {
    stream.sendWindow -= bytes;
    this.window -= bytes;
    stream.queuedBytes -= bytes;
    this.queued(-bytes);
  }

  private advance(stream: Http2Stream, bytes: number): void {
    stream.pieceOffset += bytes;
    if (stream.pieceOffset === stream.pieces[0]!.bytes.length) stream.shiftPiece();
  }

  /** HEADERS and, above the peer's frame size, CONTINUATION; false when the buffer has no room now. */
  private headerBlock(streamId: number, block: Uint8Array, endStream: boolean): boolean {
    // A block larger than the buffer's bound would wait for ever: header lists are bounded where they are made.
    const frames = Math.floor(block.length / this.peerFrameBytesMax) + 1;
    if (this.out.room < block.length + 1 + frames * FRAME_HEADER_BYTES) return false;
    let whole = block;
    if (this.tableSizeDue) {
      this.tableSizeDue = false;
      whole = new Uint8Array(block.length + 1);
      whole[0] = TABLE_SIZE_ZERO;
      whole.set(block, 1);
    }
    const end = endStream ? FLAG.END_STREAM : 0;
    if (whole.length <= this.peerFrameBytesMax) {
      this.out.reserve(FRAME_HEADER_BYTES);
      this.writeFrame(whole, FRAME.HEADERS, FLAG.END_HEADERS | end, streamId);
      return true;
    }
    for (let at = 0; at < whole.length; at += this.peerFrameBytesMax) {
      const part = whole.subarray(at, at + this.peerFrameBytesMax);
      const last = at + part.length === whole.length ? FLAG.END_HEADERS : 0;
      this.out.reserve(FRAME_HEADER_BYTES);
      this.writeFrame(part, at === 0 ? FRAME.HEADERS : FRAME.CONTINUATION, last | (at === 0 ? end : 0), streamId);
    }
    return true;
  }

  /** A control frame whose payload is 32-bit numbers. */
  private control(type: number, flags: number, streamId: number, words: readonly number[]): void {
    const out = this.out;
    if (!this.holds(FRAME_HEADER_BYTES + words.length * 4)) return;
    out.end = writeFrameHeader(out.bytes, out.end, words.length * 4, type, flags, streamId);
    for (const word of words) out.end = writeUint32(out.bytes, out.end, word);
    this.owner.wake();
  }

  private sendFrame(payload: Uint8Array, type: number, flags: number): void {
    if (!this.holds(FRAME_HEADER_BYTES + payload.length)) return;
    this.writeFrame(payload, type, flags, 0);
    this.owner.wake();
  }

  /** Space for a control frame; false when the connection is over, or is now because it owes too much. */
  private holds(bytes: number): boolean {
    if (this.closed) return false;
    if (!this.out.canHold(bytes)) {
      this.owner.overrun();
      return false;
    }
    this.out.reserve(bytes);
    this.controlBytes += bytes;
    return true;
  }

  private writeFrame(payload: Uint8Array, type: number, flags: number, streamId: number): void {
    this.out.end = writeFrameHeader(this.out.bytes, this.out.end, payload.length, type, flags, streamId);
    this.out.append(payload, 0, payload.length);
  }
}

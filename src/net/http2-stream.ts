// One HTTP/2 stream: what its owner may send, what it still has to send, and who receives.
//
// Invariant: response headers, then data in order, then trailers; every `released` callback runs exactly once, when its
// bytes are written, copied into the connection's bounded buffer, or dropped. Used by the connection (which drives it)
// and by whoever speaks a protocol on top.

import type { H2ErrorCode } from "./frames.ts";
import type { Progress } from "./progress.ts";

/** What a stream asks of the sending half of its connection (`Sender`). */
export interface StreamSender {
  /** Replies that are queued in memory of somebody else, over all streams. */
  borrowedReplies: number;
  /** Counts bytes queued on a stream; below 0, bytes that no longer are. */
  queued(bytes: number): void;
  schedule(stream: Http2Stream): void;
  reset(stream: Http2Stream, code: H2ErrorCode): void;
  sendWhole(
    stream: Http2Stream,
    headers: Uint8Array,
    prefix: Uint8Array,
    chunks: readonly Uint8Array[],
    chunkBytes: number,
    trailers: Uint8Array,
  ): boolean;
}

/** Why we give a stream up that its peer has not: its request came to a halt, or the server stops. */
export type GivenUpReason = "stalled" | "stopping";

/** Hears what the peer does on a stream. */
export interface StreamReceiver {
  /** The next bytes of the body: `bytes[start, end)`, memory that stays as it is; `last`: the peer ends with them. */
  data(bytes: Uint8Array, start: number, end: number, last: boolean): void;
  /** The peer has said everything. */
  halfClosed(): void;
  /** The peer or the connection gave up the stream before we had ended it; nothing can be sent any more. */
  aborted(): void;
  /** The server gives the stream up: say so to the peer, and end it. */
  givenUp(reason: GivenUpReason): void;
}

/** A piece of queued output; `released` stands at the last piece of what was sent together. */
interface Piece {
  readonly bytes: Uint8Array;
  readonly released: (() => void) | undefined;
}

// What `pieces` is until something is queued: most responses never queue, and an array for each would be garbage.
const NO_PIECES: Piece[] = [];

export class Http2Stream {
  receiver: StreamReceiver | undefined;
  /** The peer sent END_STREAM. */
  remoteClosed = false;
  /** We sent END_STREAM or RST_STREAM, or the stream is lost. */
  localClosed = false;
  /** Bytes received since the last WINDOW_UPDATE. */
  receivedUnacknowledged = 0;
  /** Bytes received in all, and whether they still come. */
  receivedBytes = 0;
  progress: Progress | undefined;
  /** The peer may take its time between messages: a call of many. */
  mayPause = false;
  /** What content-length still promises; -1 when it was not given. */
  bodyBytesDue = -1;
  /** Waits in the sender's ring. */
  scheduled = false;

  // What waits to be sent, in this order.
  headers: Uint8Array | undefined;
  pieces: Piece[] = NO_PIECES;
  pieceOffset = 0; // into pieces[0]
  queuedBytes = 0;
  /** Of `pieces`: bytes that `copyReplies` made ours. */
  ownedBytes = 0;
  trailers: Uint8Array | undefined;
  /** The stream ends with its data, without trailers. */
  endsWithData = false;

  constructor(
    readonly id: number,
    readonly sender: StreamSender,
    public sendWindow: number,
  ) {}

  /** Nothing waits. */
  get idle(): boolean {
    return !this.endsWithData && this.headers === undefined && this.pieces.length === 0 && this.trailers === undefined;
  }

  /** Sends response headers; with `end` they are the whole response (in gRPC: trailers only). */
  sendHeaders(block: Uint8Array, end: boolean): void {
    if (this.localClosed) return;
    if (end) this.trailers = block;
    else this.headers = block;
    this.sender.schedule(this);
  }

  /** Sends `chunks` of `byteLength` bytes in all. They belong to the stream until `released` is called. */
  sendData(chunks: readonly Uint8Array[], byteLength: number, released?: () => void): void {
    if (this.localClosed || byteLength === 0) {
      released?.();
      return;
    }
    if (this.pieces === NO_PIECES) this.pieces = [];
    if (released !== undefined) this.sender.borrowedReplies++;
    let left = byteLength;
    for (const chunk of chunks) {
      left -= chunk.length;
      if (chunk.length > 0) this.pieces.push({ bytes: chunk, released: left === 0 ? released : undefined });
      if (left === 0) break;
    }
    this.queuedBytes += byteLength;
    this.sender.queued(byteLength);
    this.sender.schedule(this);
  }

  /** Sends the whole response at once, copied, if it fits now; returns whether it did. See `Sender.sendWhole`. */
  sendWhole(
    headers: Uint8Array,
    prefix: Uint8Array,
    chunks: readonly Uint8Array[],
    chunkBytes: number,
    trailers: Uint8Array,
  ): boolean {
    return this.sender.sendWhole(this, headers, prefix, chunks, chunkBytes, trailers);
  }

  /** Ends the stream with trailers, after everything that was sent before. */
  sendTrailers(block: Uint8Array): void {
    if (this.localClosed) return;
    this.trailers = block;
    this.sender.schedule(this);
  }

  /** Ends the stream after the data that was sent, without trailers. */
  sendEnd(): void {
    if (this.localClosed) return;
    this.endsWithData = true;
    this.sender.schedule(this);
  }

  /** Gives the stream up: RST_STREAM, and what waits is dropped. */
  reset(code: H2ErrorCode): void {
    this.sender.reset(this, code);
  }

  /** Drops what waits; for the sender and the connection. */
  drop(): void {
    this.localClosed = true;
    this.endsWithData = false;
    this.headers = this.trailers = undefined;
    const pieces = this.pieces;
    this.pieces = NO_PIECES;
    this.sender.queued(-this.queuedBytes);
    this.queuedBytes = this.pieceOffset = this.ownedBytes = 0;
    for (const piece of pieces) this.release(piece);
  }

  /** The first piece has been handed over. */
  shiftPiece(): void {
    this.pieceOffset = 0;
    const piece = this.pieces.shift()!;
    if (this.pieces.length === 0) this.ownedBytes = 0;
    this.release(piece);
  }

  /** Copies queued replies as far as they fit into `bytesMax`, and releases what they were in. Returns bytes copied. */
  copyReplies(bytesMax: number): number {
    if (this.queuedBytes > bytesMax || !this.pieces.some((piece) => piece.released !== undefined)) return 0;
    const copy = new Uint8Array(this.queuedBytes);
    const pieces = this.pieces;
    let at = 0;
    for (const [index, { bytes }] of pieces.entries()) {
      const rest = index === 0 ? bytes.subarray(this.pieceOffset) : bytes;
      copy.set(rest, at);
      at += rest.length;
    }
    this.pieces = [{ bytes: copy, released: undefined }];
    this.pieceOffset = 0;
    this.ownedBytes = copy.length;
    for (const piece of pieces) this.release(piece);
    return copy.length;
  }

  private release({ released }: Piece): void {
    if (released === undefined) return;
    this.sender.borrowedReplies--;
    released();
  }
}

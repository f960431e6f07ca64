// The server's end of one HTTP/2 connection (RFC 9113): streams, settings, flow control, and its end.
//
// Invariant: nothing that the peer does throws out of `received`; a breach of the protocol ends the stream or the
// connection as the RFC says. Bytes come in by `received`, go out through a Transport; so it runs without a socket.
// Made by `grpc-server.ts`, one a connection; sends through `sender.ts`.

import type { Clock, Timer } from "../base/clock.ts";
import { CONNECTION_LINGER_NS, FRAME_BYTES_MAX } from "../base/limits.ts";
import { FloodGauge } from "./flood-gauge.ts";
import { FrameReader } from "./frame-reader.ts";
import {
  ConnectionError,
  DEFAULT_FRAME_BYTES,
  DEFAULT_WINDOW_BYTES,
  FLAG,
  FRAME,
  H2_ERROR,
  type H2ErrorCode,
  HEADER_TABLE_BYTES,
  readUint32,
  SETTING,
  STREAM_ID_MAX,
  WINDOW_BYTES_MAX,
} from "./frames.ts";
import { HeaderBlocks } from "./header-blocks.ts";
import { Http2Stream } from "./http2-stream.ts";
import type { Transport } from "./output-buffer.ts";
import type { RequestHead } from "./request-head.ts";
import { Sender } from "./sender.ts";
import { StallGuard } from "./stall-guard.ts";

export interface Http2Limits {
  /** SETTINGS_MAX_CONCURRENT_STREAMS. */
  readonly streamsMax: number;
  readonly streamWindowBytes: number;
  readonly connectionWindowBytes: number;
  /** SETTINGS_MAX_HEADER_LIST_SIZE. */
  readonly headerListBytesMax: number;
}

/** What a connection tells its server. */
export interface ConnectionOwner {
  /** A request begins: set `stream.receiver`. Never throws. */
  request(stream: Http2Stream, head: RequestHead): void;
  /** Output waits: call `flush` at the end of this turn of the event loop. */
  wake(connection: Http2Connection): void;
}

/** Stream resets of ours whose streams the peer may still be writing to; older ones are answered as closed. */
const RESETS_REMEMBERED = 256;

const DRAIN_PING = new TextEncoder().encode("draining");
/** A peer that does not answer our ping gets the final GOAWAY after this time. */
const DRAIN_PING_NS = 1e9;

export class Http2Connection {
  readonly streams = new Map<number, Http2Stream>();
  private readonly sender: Sender;
  private readonly reader: FrameReader;
  private readonly headers: HeaderBlocks;
  private readonly floods: FloodGauge;
  private readonly stalls: StallGuard;
  private settingsSeen = false;
  private lastStreamId = 0;
  // Ids that the peer jumped over last, [skippedFrom, skippedTo): never opened, so no frame may name them.
  private skippedFrom = 0;
  private skippedTo = 0;
  private readonly resets = new Set<number>();
  private receivedUnacknowledged = 0;
  private receiveWindow: number;
  /** Within `received`, which flushes at its end; or a flush is already asked for. */
  private reading = false;
  private awake = false;
  /** "open", then perhaps "draining" (GOAWAY sent, streams finish), then "closing" (nothing is read), then "closed". */
  private state: "open" | "draining" | "closing" | "closed" = "open";
  private finalGoAwaySent = false;
  private timer: Timer | undefined;

  constructor(
    private readonly transport: Transport,
    private readonly owner: ConnectionOwner,
    private readonly limits: Http2Limits,
    private readonly clock: Clock,
  ) {
    this.sender = new Sender(transport, this);
    this.headers = new HeaderBlocks(limits.headerListBytesMax);
    this.floods = new FloodGauge(clock);
    this.stalls = new StallGuard(this.sender, this.streams, clock, () =>
      this.fail(H2_ERROR.ENHANCE_YOUR_CALM, "replies are not read"),
    );
    // MAX_FRAME_SIZE is large for DATA only: a larger HEADERS frame would carry a list above its bound in any case.
    const controlBytesMax = Math.max(limits.headerListBytesMax, DEFAULT_FRAME_BYTES);
    this.reader = new FrameReader(this, true, FRAME_BYTES_MAX, controlBytesMax);
    this.receiveWindow = Math.max(limits.connectionWindowBytes, DEFAULT_WINDOW_BYTES);
    this.sender.settings([
      [SETTING.HEADER_TABLE_SIZE, HEADER_TABLE_BYTES],
      [SETTING.MAX_CONCURRENT_STREAMS, limits.streamsMax],
      [SETTING.INITIAL_WINDOW_SIZE, limits.streamWindowBytes],
      [SETTING.MAX_FRAME_SIZE, FRAME_BYTES_MAX],
      [SETTING.MAX_HEADER_LIST_SIZE, limits.headerListBytesMax],
    ]);
    if (this.receiveWindow > DEFAULT_WINDOW_BYTES)
      this.sender.windowUpdate(0, this.receiveWindow - DEFAULT_WINDOW_BYTES);
  }

  /** Takes bytes from the peer; `bytes` must not change afterwards, message bodies are views of it. */
  received(bytes: Uint8Array): void {
    if (this.state === "closing" || this.state === "closed") return;
    this.reading = true;
    try {
      this.reader.read(bytes);
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error;
      this.fail(error.code, error.message);
    } finally {
      this.reading = false;
    }
    this.flush();
  }

  /** Writes what waits. The owner calls it once a turn for those that woke it. */
  flush(): void {
    this.awake = false;
    if (this.state === "closed") return;
    this.sender.flush();
    this.afterOutput();
  }

  /** The transport takes bytes again. */
  drained(): void {
    if (this.state === "closed") return;
    this.sender.drained();
    this.afterOutput();
  }

  /** The transport is gone. Every stream is aborted. */
  lost(): void {
    if (this.state === "closed") return;
    this.state = "closed";
    this.timer?.cancel();
    this.stalls.stop();
    this.abortStreams();
    this.sender.close();
  }

  /** Refuses new streams (GOAWAY), lets those that run finish, then closes. */
  drain(): void {
    if (this.state !== "open") return;
    this.state = "draining";
    // Two steps (section 6.8): requests that are on their way when the first GOAWAY leaves are still served.
    this.sender.goAway(STREAM_ID_MAX, H2_ERROR.NO_ERROR, "draining");
    this.sender.ping(DRAIN_PING, false);
    this.timer = this.clock.after(DRAIN_PING_NS, () => this.finishDrain());
  }

  /** Ends the connection at once. */
  terminate(): void {
    if (this.state === "closed") return;
    this.lost();
    this.transport.terminate();
  }

  // -- what the sender asks for

  wake(): void {
    if (this.reading || this.awake) return;
    this.awake = true;
    this.owner.wake(this);
  }

  overrun(): void {
    this.terminate();
  }

  sentLast(stream: Http2Stream, reset: boolean): void {
    this.streams.delete(stream.id);
    if (stream.remoteClosed) return;
    // A complete response to an incomplete request: tell the peer to stop sending (section 8.1).
    if (!reset) this.sender.resetId(stream.id, H2_ERROR.NO_ERROR);
    this.rememberReset(stream.id);
  }

  // -- frames

  dataFrame(streamId: number, flags: number, payloadBytes: number): void {
    this.expectSettingsFirst(FRAME.DATA);
    this.headers.expectNone();
    if (streamId === 0) throw new ConnectionError(H2_ERROR.PROTOCOL_ERROR, "DATA on stream 0");
    if (payloadBytes === 0 && (flags & FLAG.END_STREAM) === 0) this.floods.count("empty DATA");
    this.receivedUnacknowledged += payloadBytes;
    if (this.receivedUnacknowledged > this.receiveWindow) {
      throw new ConnectionError(H2_ERROR.FLOW_CONTROL_ERROR, "DATA beyond the connection's window");
    }
    // Half a window ahead of the peer's need: few updates, and none comes late.
    if (this.receivedUnacknowledged * 2 >= this.receiveWindow) {
      this.sender.windowUpdate(0, this.receivedUnacknowledged);
      this.receivedUnacknowledged = 0;
    }
    const stream = this.streams.get(streamId);
    if (stream === undefined || stream.remoteClosed) {
      this.onClosedStream(streamId, "DATA");
      return;
    }
    stream.receivedUnacknowledged += payloadBytes;
    if (stream.receivedUnacknowledged > this.limits.streamWindowBytes) {
      this.abort(stream, H2_ERROR.FLOW_CONTROL_ERROR);
    } else if (stream.receivedUnacknowledged * 2 >= this.limits.streamWindowBytes && !(flags & FLAG.END_STREAM)) {
      this.sender.windowUpdate(streamId, stream.receivedUnacknowledged);
      stream.receivedUnacknowledged = 0;
    }
  }

  dataPiece(streamId: number, bytes: Uint8Array, start: number, end: number, last: boolean, endStream: boolean): void {
    const stream = this.streams.get(streamId);
    if (stream === undefined || stream.remoteClosed) return;
    if (stream.bodyBytesDue >= 0) {
      stream.bodyBytesDue -= end - start;
      if (stream.bodyBytesDue < 0 || (endStream && stream.bodyBytesDue > 0)) {
        this.abort(stream, H2_ERROR.PROTOCOL_ERROR);
        return;
      }
    }
    if (end > start) stream.receiver?.data(bytes, start, end);
    if (last && endStream) this.remoteEnd(stream);
  }

  frame(type: number, flags: number, streamId: number, bytes: Uint8Array, start: number, end: number): void {
    this.expectSettingsFirst(type);
    if (type !== FRAME.CONTINUATION) this.headers.expectNone();
    const length = end - start;
    switch (type) {
      case FRAME.HEADERS:
        expectStream(streamId, "HEADERS");
        if (this.headers.begin(flags, streamId, bytes, start, end)) this.onHeaderBlock();
        return;
      case FRAME.CONTINUATION:
        this.floods.count("CONTINUATION");
        if (this.headers.goOn(flags, streamId, bytes, start, end)) this.onHeaderBlock();
        return;
      case FRAME.PRIORITY:
        expectStream(streamId, "PRIORITY");
        this.floods.count("PRIORITY");
        if (length !== 5) this.refuse(streamId, H2_ERROR.FRAME_SIZE_ERROR);
        else if ((readUint32(bytes, start) & 0x7fffffff) === streamId) this.refuse(streamId, H2_ERROR.PROTOCOL_ERROR);
        return;
      case FRAME.RST_STREAM:
        expectLength(length, 4, "RST_STREAM");
        this.onReset(streamId);
        return;
      case FRAME.SETTINGS:
        this.onSettings(flags, streamId, bytes, start, end);
        return;
      case FRAME.PUSH_PROMISE:
        throw new ConnectionError(H2_ERROR.PROTOCOL_ERROR, "PUSH_PROMISE from a client");
      case FRAME.PING:
        expectConnection(streamId, "PING");
        expectLength(length, 8, "PING");
        this.onPing(flags, bytes.slice(start, end));
        return;
      case FRAME.GOAWAY:
        expectConnection(streamId, "GOAWAY");
        if (length < 8) throw new ConnectionError(H2_ERROR.FRAME_SIZE_ERROR, "GOAWAY too short");
        return; // the client opens no more streams; those that run go on
      case FRAME.WINDOW_UPDATE:
        expectLength(length, 4, "WINDOW_UPDATE");
        this.onWindowUpdate(streamId, readUint32(bytes, start) & 0x7fffffff);
        return;
      default:
        return; // unknown types are ignored (section 5.5)
    }
  }

  private expectSettingsFirst(type: number): void {
    if (!this.settingsSeen && type !== FRAME.SETTINGS) {
      throw new ConnectionError(H2_ERROR.PROTOCOL_ERROR, "the first frame is not SETTINGS");
    }
  }

  /** A header block is complete. It is decoded in every case, or the peer's dynamic table and ours would part. */
  private onHeaderBlock(): void {
    const { streamId, endStream, selfDependent } = this.headers;
    const known = this.streams.get(streamId);
    if (known !== undefined) {
      this.onTrailers(known, endStream);
      return;
    }
    if (streamId <= this.lastStreamId) {
      this.headers.trailers();
      this.onClosedStream(streamId, "HEADERS");
      return;
    }
    if (streamId % 2 === 0) throw new ConnectionError(H2_ERROR.PROTOCOL_ERROR, `a client opened stream ${streamId}`);
    const head = this.headers.head();
    if (this.finalGoAwaySent) return; // above the last stream that we said we would serve
    if (streamId > this.lastStreamId + 2) [this.skippedFrom, this.skippedTo] = [this.lastStreamId + 1, streamId];
    this.lastStreamId = streamId;
    if (selfDependent || head.malformed !== undefined) this.refuse(streamId, H2_ERROR.PROTOCOL_ERROR);
    else if (this.streams.size >= this.limits.streamsMax) this.refuse(streamId, H2_ERROR.REFUSED_STREAM);
    else this.open(streamId, head, endStream);
  }

  private open(streamId: number, head: RequestHead, endStream: boolean): void {
    if (endStream && head.contentBytes > 0) {
      this.refuse(streamId, H2_ERROR.PROTOCOL_ERROR);
      return;
    }
    const stream = new Http2Stream(streamId, this.sender, this.sender.peerWindowBytes);
    stream.bodyBytesDue = head.contentBytes;
    this.streams.set(streamId, stream);
    this.owner.request(stream, head);
    if (endStream) this.remoteEnd(stream);
  }

  private onTrailers(stream: Http2Stream, endStream: boolean): void {
    const fault = this.headers.trailers();
    if (stream.remoteClosed) throw new ConnectionError(H2_ERROR.STREAM_CLOSED, "HEADERS on a half-closed stream");
    const bodyDue = stream.bodyBytesDue > 0;
    if (!endStream || fault !== undefined || bodyDue) this.abort(stream, H2_ERROR.PROTOCOL_ERROR);
    else this.remoteEnd(stream);
  }

  private remoteEnd(stream: Http2Stream): void {
    stream.remoteClosed = true;
    if (!stream.localClosed) stream.receiver?.halfClosed();
  }

  /** A frame on a stream that is not open: an error of the connection or the stream, or the echo of our own reset. */
  private onClosedStream(streamId: number, what: string): void {
    this.expectOpened(streamId, what);
    if (this.resets.has(streamId)) return;
    if (what === "HEADERS") throw new ConnectionError(H2_ERROR.STREAM_CLOSED, `HEADERS on closed stream ${streamId}`);
    const halfClosed = this.streams.get(streamId);
    if (halfClosed !== undefined) this.abort(halfClosed, H2_ERROR.STREAM_CLOSED);
    else this.refuse(streamId, H2_ERROR.STREAM_CLOSED);
  }

  private expectOpened(streamId: number, what: string): void {
    const skipped = streamId >= this.skippedFrom && streamId < this.skippedTo;
    if (streamId > this.lastStreamId || streamId % 2 === 0 || skipped) {
      throw new ConnectionError(H2_ERROR.PROTOCOL_ERROR, `${what} on idle stream ${streamId}`);
    }
  }

  private onReset(streamId: number): void {
    expectStream(streamId, "RST_STREAM");
    this.expectOpened(streamId, "RST_STREAM");
    this.floods.count("RST_STREAM");
    const stream = this.streams.get(streamId);
    if (stream === undefined) return;
    this.streams.delete(streamId);
    stream.drop();
    stream.receiver?.aborted();
  }

  private onSettings(flags: number, streamId: number, bytes: Uint8Array, start: number, end: number): void {
    expectConnection(streamId, "SETTINGS");
    if (flags & FLAG.ACK) {
      expectLength(end - start, 0, "SETTINGS acknowledgement");
      return;
    }
    if ((end - start) % 6 !== 0) throw new ConnectionError(H2_ERROR.FRAME_SIZE_ERROR, "SETTINGS of an odd length");
    this.settingsSeen = true;
    this.floods.count("SETTINGS");
    for (let at = start; at < end; at += 6)
      this.onSetting((bytes[at]! << 8) | bytes[at + 1]!, readUint32(bytes, at + 2));
    this.sender.settingsAck();
  }

  private onSetting(id: number, value: number): void {
    if (id === SETTING.HEADER_TABLE_SIZE) {
      this.sender.tableSizeDue = value < HEADER_TABLE_BYTES;
    } else if (id === SETTING.ENABLE_PUSH) {
      if (value > 1) throw new ConnectionError(H2_ERROR.PROTOCOL_ERROR, `ENABLE_PUSH ${value}`);
    } else if (id === SETTING.MAX_FRAME_SIZE) {
      if (value < DEFAULT_FRAME_BYTES || value >= 2 ** 24) {
        throw new ConnectionError(H2_ERROR.PROTOCOL_ERROR, `MAX_FRAME_SIZE ${value}`);
      }
      this.sender.peerFrameBytesMax = value;
    } else if (id === SETTING.INITIAL_WINDOW_SIZE) {
      if (value > WINDOW_BYTES_MAX) throw new ConnectionError(H2_ERROR.FLOW_CONTROL_ERROR, `window of ${value} bytes`);
      const change = value - this.sender.peerWindowBytes;
      this.sender.peerWindowBytes = value;
      for (const stream of this.streams.values()) {
        if (this.sender.enlargeStreamWindow(stream, change)) continue;
        throw new ConnectionError(H2_ERROR.FLOW_CONTROL_ERROR, `window of stream ${stream.id} overflows`);
      }
    }
  }

  private onPing(flags: number, payload: Uint8Array): void {
    if (!(flags & FLAG.ACK)) {
      this.floods.count("PING");
      this.sender.ping(payload, true);
    } else if (this.state === "draining") this.finishDrain();
  }

  private onWindowUpdate(streamId: number, bytes: number): void {
    if (streamId === 0) {
      if (bytes === 0) throw new ConnectionError(H2_ERROR.PROTOCOL_ERROR, "WINDOW_UPDATE of 0");
      if (!this.sender.enlargeWindow(bytes)) throw new ConnectionError(H2_ERROR.FLOW_CONTROL_ERROR, "window overflows");
      return;
    }
    this.expectOpened(streamId, "WINDOW_UPDATE");
    const stream = this.streams.get(streamId);
    if (stream === undefined) return;
    if (bytes === 0) this.abort(stream, H2_ERROR.PROTOCOL_ERROR);
    else if (!this.sender.enlargeStreamWindow(stream, bytes)) this.abort(stream, H2_ERROR.FLOW_CONTROL_ERROR);
  }

  // -- ends

  /** Resets a stream because of what its peer did. */
  private abort(stream: Http2Stream, code: H2ErrorCode): void {
    stream.reset(code);
    stream.receiver?.aborted();
  }

  /** Resets a stream that was never opened, or no longer is. */
  private refuse(streamId: number, code: H2ErrorCode): void {
    const stream = this.streams.get(streamId);
    if (stream !== undefined) {
      this.abort(stream, code);
      return;
    }
    this.floods.count("refused stream");
    this.rememberReset(streamId);
    this.sender.resetId(streamId, code);
  }

  private rememberReset(streamId: number): void {
    this.resets.add(streamId);
    if (this.resets.size <= RESETS_REMEMBERED) return;
    for (const oldest of this.resets) {
      this.resets.delete(oldest);
      return;
    }
  }

  private abortStreams(): void {
    for (const stream of [...this.streams.values()]) {
      this.streams.delete(stream.id);
      stream.drop();
      stream.receiver?.aborted();
    }
  }

  private fail(code: H2ErrorCode, reason: string): void {
    if (this.state === "closing" || this.state === "closed") return;
    this.sender.goAway(this.lastStreamId, code, reason);
    this.state = "closing";
    this.abortStreams();
    this.sender.flush();
    this.close();
  }

  private finishDrain(): void {
    if (this.state !== "draining" || this.finalGoAwaySent) return;
    this.finalGoAwaySent = true;
    this.timer?.cancel();
    this.timer = undefined;
    this.sender.goAway(this.lastStreamId, H2_ERROR.NO_ERROR, "draining");
    if (!this.reading) this.flush();
  }

  private afterOutput(): void {
    this.stalls.watch();
    if (!this.finalGoAwaySent || this.streams.size > 0 || !this.sender.idle || this.state !== "draining") return;
    this.state = "closing";
    this.close();
  }

  /** Ends our direction; the peer has a moment to read what we said last before the connection is dropped. */
  private close(): void {
    this.transport.shutdown();
    this.timer?.cancel();
    this.timer = this.clock.after(CONNECTION_LINGER_NS, () => this.terminate());
  }
}

function expectStream(streamId: number, what: string): void {
  if (streamId === 0) throw new ConnectionError(H2_ERROR.PROTOCOL_ERROR, `${what} on stream 0`);
}

function expectConnection(streamId: number, what: string): void {
  if (streamId !== 0) throw new ConnectionError(H2_ERROR.PROTOCOL_ERROR, `${what} on stream ${streamId}`);
}

function expectLength(length: number, expected: number, what: string): void {
  if (length !== expected) throw new ConnectionError(H2_ERROR.FRAME_SIZE_ERROR, `${what} of ${length} bytes`);
}

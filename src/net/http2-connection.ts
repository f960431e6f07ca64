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
import { type Awaited, lookAtRequests, Patience } from "./patience.ts";
import { foldSettings, settingsCount } from "./peer-settings.ts";
import type { RequestHead } from "./request-head.ts";
import { SendBudget } from "./send-budget.ts";
import { Sender } from "./sender.ts";
import { StallGuard } from "./stall-guard.ts";
import { StreamIds } from "./stream-ids.ts";

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
  private readonly patience = new Patience((awaited) => this.waitedTooLong(awaited));
  private settingsSeen = false;
  private readonly ids = new StreamIds();
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
    sendBudget = new SendBudget(Number.POSITIVE_INFINITY, clock),
  ) {
    this.sender = new Sender(transport, this, sendBudget);
    this.headers = new HeaderBlocks(limits.headerListBytesMax);
    this.floods = new FloodGauge(clock);
    this.stalls = new StallGuard(this.sender, this.streams, sendBudget, clock, () =>
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

  /** Tells every call that the server stops, and closes when that is written. */
  stop(): void {
    for (const stream of [...this.streams.values()]) stream.receiver?.givenUp("stopping");
    this.flush();
    this.fail(H2_ERROR.NO_ERROR, "the server is shutting down");
  }

  /** To be called every PEER_LOOK_NS: ends what its peer has left lying. */
  look(): void {
    if (this.state === "closing" || this.state === "closed") return;
    const nowNs = this.clock.nowNs();
    lookAtRequests(this.streams.values(), nowNs);
    this.patience.look(this.awaited, this.ids.last, nowNs);
  }

  /** What the peer has to do next; undefined when the connection may wait. */
  private get awaited(): Awaited | undefined {
    if (this.state !== "open") return undefined;
    if (!this.settingsSeen) return "settings";
    if (this.headers.open) return "header block";
    if (this.streams.size > 0) return undefined;
    return this.ids.last === 0 ? "first request" : "request";
  }

  private waitedTooLong(awaited: Awaited): void {
    if (awaited === "settings") this.terminate();
    else if (awaited === "header block") this.fail(H2_ERROR.ENHANCE_YOUR_CALM, "a header block was not completed");
    else this.drain(); // a request that is on its way is still served
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
    this.ids.rememberReset(stream.id);
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
    stream.receivedBytes += end - start;
    if (end > start) stream.receiver?.data(bytes, start, end, endStream);
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
    if (streamId <= this.ids.last) {
      this.headers.trailers();
      this.onClosedStream(streamId, "HEADERS");
      return;
    }
    if (streamId % 2 === 0) throw new ConnectionError(H2_ERROR.PROTOCOL_ERROR, `a client opened stream ${streamId}`);
    const head = this.headers.head();
    if (this.finalGoAwaySent) return; // above the last stream that we said we would serve
    this.ids.use(streamId);
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
    this.ids.expectUsed(streamId, what);
    if (this.ids.wasReset(streamId)) return;
    if (what === "HEADERS") throw new ConnectionError(H2_ERROR.STREAM_CLOSED, `HEADERS on closed stream ${streamId}`);
    const halfClosed = this.streams.get(streamId);
    if (halfClosed !== undefined) this.abort(halfClosed, H2_ERROR.STREAM_CLOSED);
    else this.refuse(streamId, H2_ERROR.STREAM_CLOSED);
  }

  private onReset(streamId: number): void {
    expectStream(streamId, "RST_STREAM");
    this.ids.expectUsed(streamId, "RST_STREAM");
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
    const count = settingsCount(end - start);
    this.settingsSeen = true;
    // A full frame costs some 30 us to read, a walk over a thousand streams as much.
    this.floods.count("SETTINGS", 1 + ((count + this.streams.size) >> 5));
    const { frameBytesMax, windowBytes, windowPeakBytes, tableLowered } = foldSettings(bytes, start, end);
    if (tableLowered) this.sender.tableSizeDue = true;
    if (frameBytesMax !== undefined) this.sender.peerFrameBytesMax = frameBytesMax;
    if (windowBytes !== undefined) this.onInitialWindow(windowBytes, windowPeakBytes);
    this.sender.settingsAck();
  }

  private onInitialWindow(windowBytes: number, peakBytes: number): void {
    const before = this.sender.peerWindowBytes;
    this.sender.peerWindowBytes = windowBytes;
    for (const stream of this.streams.values()) {
      if (stream.sendWindow + peakBytes - before > WINDOW_BYTES_MAX) {
        throw new ConnectionError(H2_ERROR.FLOW_CONTROL_ERROR, `window of stream ${stream.id} overflows`);
      }
      if (windowBytes !== before) this.sender.enlargeStreamWindow(stream, windowBytes - before);
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
    this.ids.expectUsed(streamId, "WINDOW_UPDATE");
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
    this.ids.rememberReset(streamId);
    this.sender.resetId(streamId, code);
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
    this.sender.goAway(this.ids.last, code, reason);
    this.state = "closing";
    this.abortStreams();
    this.stalls.stop();
    this.sender.flush();
    this.close();
  }

  private finishDrain(): void {
    if (this.state !== "draining" || this.finalGoAwaySent) return;
    this.finalGoAwaySent = true;
    this.timer?.cancel();
    this.timer = undefined;
    this.sender.goAway(this.ids.last, H2_ERROR.NO_ERROR, "draining");
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

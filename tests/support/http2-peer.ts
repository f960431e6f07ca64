// The peer of an HTTP/2 connection in memory: frames made by hand, and what comes back parsed, on a clock that is set.
//
// Nothing is awaited: what the connection writes is there as soon as it was told to flush. Used by the tests of net/.

import { VirtualClock } from "../../src/base/clock.ts";
import { PREFACE } from "../../src/net/frames.ts";
import { encodeHeaderBlock } from "../../src/net/hpack-encoder.ts";
import { Http2Connection, type Http2Limits } from "../../src/net/http2-connection.ts";
import type { Http2Stream } from "../../src/net/http2-stream.ts";
import type { SendBudget } from "../../src/net/send-budget.ts";

/** A frame as it was written. */
export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly streamId: number;
  readonly payload: Buffer;
}

/** A frame of any kind; types and flags as numbers, RFC 9113 section 6. */
export function frame(type: number, flags: number, streamId: number, payload: Uint8Array | number[] = []): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(streamId, 5);
  return Buffer.concat([head, Buffer.from(payload)]);
}

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

export function setting(id: number, value: number): Buffer {
  return frame(4, 0, 0, Buffer.concat([Buffer.from([0, id]), uint32(value)]));
}

export const LIMITS: Http2Limits = {
  streamsMax: 8,
  streamWindowBytes: 1000,
  connectionWindowBytes: 100_000,
  headerListBytesMax: 4096,
};

/** Header blocks: of a request, and of a response before and after its data. */
export const REQUEST = encodeHeaderBlock([
  [":method", "POST"],
  [":scheme", "http"],
  [":path", "/"],
]);
export const HEADERS = encodeHeaderBlock([[":status", "200"]]);
export const TRAILERS = encodeHeaderBlock([["grpc-status", "0"]]);

/** The peer of a connection in memory: counts what each stream hears, parses what is written. */
export class Peer {
  readonly streams: Http2Stream[] = [];
  readonly heard: string[] = [];
  /** How many bytes the transport takes before it is full. */
  appetite = Number.POSITIVE_INFINITY;
  writes = 0;
  shutdown = false;
  terminated = false;
  readonly connection: Http2Connection;
  private written = Buffer.alloc(0);

  /** Peers of one server share a clock and a budget. */
  constructor(
    limits: Partial<Http2Limits> = {},
    readonly clock = new VirtualClock(),
    sendBudget?: SendBudget,
  ) {
    this.connection = new Http2Connection(
      {
        write: (bytes, start, end) => {
          this.writes++;
          const take = Math.min(end - start, this.appetite);
          this.appetite -= take;
          this.written = Buffer.concat([this.written, bytes.subarray(start, start + take)]);
          return take;
        },
        shutdown: () => {
          this.shutdown = true;
        },
        terminate: () => {
          this.terminated = true;
        },
      },
      {
        request: (stream) => {
          this.streams.push(stream);
          stream.receiver = {
            data: (_, start, end) => this.heard.push(`${stream.id}:${end - start}`),
            halfClosed: () => this.heard.push(`${stream.id}:end`),
            aborted: () => this.heard.push(`${stream.id}:aborted`),
            givenUp: (reason) => {
              this.heard.push(`${stream.id}:${reason}`);
              stream.sendHeaders(TRAILERS, true);
            },
          };
        },
        wake: (connection) => queueMicrotask(() => connection.flush()),
      },
      { ...LIMITS, ...limits },
      this.clock,
      sendBudget,
    );
    this.send(PREFACE, frame(4, 0, 0));
    this.take();
  }

  send(...parts: Uint8Array[]): void {
    this.connection.received(Buffer.concat(parts));
  }

  open(streamId: number, endStream = false): Http2Stream {
    this.send(frame(1, endStream ? 5 : 4, streamId, REQUEST));
    return this.streams.at(-1)!;
  }

  /** The frames written since the last call; an incomplete one stays. */
  take(): Frame[] {
    const frames: Frame[] = [];
    while (this.written.length >= 9) {
      const length = this.written.readUIntBE(0, 3);
      if (this.written.length < 9 + length) break;
      const [type, flags, streamId] = [this.written[3]!, this.written[4]!, this.written.readUInt32BE(5)];
      frames.push({ type, flags, streamId, payload: this.written.subarray(9, 9 + length) });
      this.written = this.written.subarray(9 + length);
    }
    return frames;
  }

  /** As `take`, in short: type/stream, the size of DATA, the code of RST_STREAM and GOAWAY. */
  took(): string[] {
    return this.take().map(({ type, flags, streamId, payload }) => {
      if (type === 0) return `DATA ${streamId} ${payload.length}${flags & 1 ? " end" : ""}`;
      if (type === 1) return `HEADERS ${streamId}${flags & 1 ? " end" : ""}`;
      if (type === 3) return `RST ${streamId} ${payload.readUInt32BE(0)}`;
      if (type === 4) return flags & 1 ? "SETTINGS ack" : "SETTINGS";
      if (type === 6) return flags & 1 ? "PING ack" : "PING";
      if (type === 7) return `GOAWAY ${payload.readUInt32BE(0)} ${payload.readUInt32BE(4)}`;
      if (type === 8) return `WINDOW ${streamId} ${payload.readUInt32BE(0)}`;
      return `type ${type}`;
    });
  }
}

export const windowUpdate = (streamId: number, bytes: number) => frame(8, 0, streamId, uint32(bytes));

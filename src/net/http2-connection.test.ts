// A connection in memory: windows to the byte, turns, bounds, floods, resets and the ways it ends.

import { describe, expect, test } from "bun:test";
import { VirtualClock } from "../base/clock.ts";
import { CONNECTION_OUTPUT_BYTES_MAX } from "../base/limits.ts";
import { H2_ERROR, PREFACE } from "./frames.ts";
import { encodeHeaderBlock } from "./hpack-encoder.ts";
import { Http2Connection, type Http2Limits } from "./http2-connection.ts";
import type { Http2Stream } from "./http2-stream.ts";

interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly streamId: number;
  readonly payload: Buffer;
}

function frame(type: number, flags: number, streamId: number, payload: Uint8Array | number[] = []): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(streamId, 5);
  return Buffer.concat([head, Buffer.from(payload)]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

function setting(id: number, value: number): Buffer {
  return frame(4, 0, 0, Buffer.concat([Buffer.from([0, id]), uint32(value)]));
}

const LIMITS: Http2Limits = {
  streamsMax: 8,
  streamWindowBytes: 1000,
  connectionWindowBytes: 100_000,
  headerListBytesMax: 4096,
};
const REQUEST = encodeHeaderBlock([
  [":method", "POST"],
  [":scheme", "http"],
  [":path", "/"],
]);
const HEADERS = encodeHeaderBlock([[":status", "200"]]);
const TRAILERS = encodeHeaderBlock([["grpc-status", "0"]]);

/** The peer of a connection in memory: counts what each stream hears, parses what is written. */
class Peer {
  readonly clock = new VirtualClock();
  readonly streams: Http2Stream[] = [];
  readonly heard: string[] = [];
  /** How many bytes the transport takes before it is full. */
  appetite = Number.POSITIVE_INFINITY;
  writes = 0;
  shutdown = false;
  terminated = false;
  readonly connection: Http2Connection;
  private written = Buffer.alloc(0);

  constructor(limits: Partial<Http2Limits> = {}) {
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
          };
        },
        wake: (connection) => queueMicrotask(() => connection.flush()),
      },
      { ...LIMITS, ...limits },
      this.clock,
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

const windowUpdate = (streamId: number, bytes: number) => frame(8, 0, streamId, uint32(bytes));

describe("sending", () => {
  test("a response waits for the stream's window, byte by byte", () => {
    const peer = new Peer();
    peer.send(setting(4, 3));
    peer.took();
    const stream = peer.open(1, true);
    let released = 0;
    stream.sendHeaders(HEADERS, false);
    stream.sendData([Buffer.from("abcde"), Buffer.from("fg")], 7, () => released++);
    stream.sendTrailers(TRAILERS);
    peer.connection.flush();
    expect(peer.took()).toEqual(["HEADERS 1", "DATA 1 3"]);
    peer.send(windowUpdate(1, 1));
    expect(peer.took()).toEqual(["DATA 1 1"]);
    expect(released).toBe(0);
    peer.send(windowUpdate(1, 100));
    expect(peer.took()).toEqual(["DATA 1 3", "HEADERS 1 end"]);
    expect(released).toBe(1);
    expect(peer.connection.streams.size).toBe(0);
  });

  test("a window that SETTINGS made negative must become positive first", () => {
    const peer = new Peer();
    peer.send(setting(4, 5));
    const stream = peer.open(1, true);
    stream.sendData([new Uint8Array(10)], 10);
    peer.connection.flush();
    peer.took();
    peer.send(setting(4, 2)); // 0 - 3 = -3
    peer.send(windowUpdate(1, 3));
    expect(peer.took()).toEqual(["SETTINGS ack"]);
    peer.send(windowUpdate(1, 1));
    expect(peer.took()).toEqual(["DATA 1 1"]);
    peer.send(setting(4, 100));
    expect(peer.took()).toEqual(["SETTINGS ack", "DATA 1 4"]);
  });

  test("trailers of one stream pass while another waits for the connection's window", () => {
    const peer = new Peer();
    peer.send(setting(4, 1_000_000));
    const large = peer.open(1, true);
    const small = peer.open(3, true);
    peer.took();
    large.sendHeaders(HEADERS, false);
    large.sendData([new Uint8Array(100_000)], 100_000);
    peer.connection.flush();
    const sent = peer.take().filter((each) => each.type === 0);
    expect(sent.reduce((sum, each) => sum + each.payload.length, 0)).toBe(65_535);
    small.sendHeaders(TRAILERS, true);
    peer.connection.flush();
    expect(peer.took()).toEqual(["HEADERS 3 end"]);
    peer.send(windowUpdate(0, 100_000));
    const rest = peer.take().filter((each) => each.type === 0);
    expect(rest.reduce((sum, each) => sum + each.payload.length, 0)).toBe(100_000 - 65_535);
  });

  test("streams take turns", () => {
    const peer = new Peer();
    peer.send(setting(4, 1_000_000), windowUpdate(0, 1_000_000));
    const streams = [peer.open(1, true), peer.open(3, true)];
    peer.took();
    for (const stream of streams) stream.sendData([new Uint8Array(131_072)], 131_072);
    peer.connection.flush();
    const order = peer.take().map((each) => each.streamId);
    expect(order).toEqual([1, 1, 1, 1, 3, 3, 3, 3, 1, 1, 1, 1, 3, 3, 3, 3]);
  });

  test("a reader that takes nothing holds at most the bounded buffer; what fits is released", () => {
    const peer = new Peer();
    peer.send(setting(4, 10_000_000), windowUpdate(0, 10_000_000));
    const stream = peer.open(1, true);
    peer.took();
    peer.appetite = 0;
    const released: number[] = [];
    for (let index = 0; index < 10; index++)
      stream.sendData([new Uint8Array(65_536)], 65_536, () => released.push(index));
    peer.connection.flush();
    expect(released).toEqual([0, 1, 2]); // the fourth fits but for the frame headers
    peer.appetite = Number.POSITIVE_INFINITY;
    peer.connection.drained();
    expect(released).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    const bytes = peer.take().reduce((sum, each) => sum + each.payload.length, 0);
    expect(bytes).toBe(655_360);
    expect(CONNECTION_OUTPUT_BYTES_MAX).toBe(4 * 65_536);
  });

  test("replies of a stalled reader are copied and released, one that moves is left alone", () => {
    const peer = new Peer();
    peer.send(setting(4, 10_000_000), windowUpdate(0, 10_000_000));
    const stream = peer.open(1, true);
    peer.took();
    const body = Buffer.from(Uint8Array.from({ length: 2_000_000 }, (_, index) => index % 249));
    const reply = Buffer.from(body);
    let released = 0;
    peer.appetite = 1000;
    stream.sendData([reply.subarray(0, 900_000), reply.subarray(900_000)], reply.length, () => released++);
    stream.sendTrailers(TRAILERS);
    peer.connection.flush();
    peer.clock.advance(60e6);
    peer.appetite = 1000;
    peer.connection.drained();
    peer.clock.advance(60e6);
    expect(released).toBe(0);
    peer.clock.advance(100e6);
    expect(released).toBe(1);
    reply.fill(0); // the slab is somebody else's now
    peer.appetite = Number.POSITIVE_INFINITY;
    peer.connection.drained();
    const frames = peer.take();
    const received = Buffer.concat(frames.filter((each) => each.type === 0).map((each) => each.payload));
    expect(received.equals(body)).toBe(true);
    expect(frames.at(-1)).toMatchObject({ type: 1, flags: 5 });
    peer.clock.advance(1e9);
    expect([released, peer.clock.nextNs()]).toEqual([1, undefined]);
  });

  test("what a stalled connection may hold in copies is bounded", () => {
    const peer = new Peer({ streamsMax: 100 });
    peer.send(setting(4, 2 ** 30), windowUpdate(0, 2 ** 30));
    peer.appetite = 0;
    let released = 0;
    for (let id = 1; id < 80; id += 2)
      peer.open(id, true).sendData([new Uint8Array(2 ** 20)], 2 ** 20, () => released++);
    peer.connection.flush();
    for (let turn = 0; turn < 5; turn++) peer.clock.advance(100e6);
    expect(released).toBe(16);
    peer.connection.lost();
    expect(released).toBe(40);
  });

  test("a peer that never reads what does not fit into copies is given up, one that reads a little is not", () => {
    for (const reads of [0, 1]) {
      const peer = new Peer({ streamsMax: 100 });
      peer.send(setting(4, 2 ** 30), windowUpdate(0, 2 ** 30));
      peer.appetite = 0;
      let released = 0;
      for (let id = 1; id < 80; id += 2)
        peer.open(id, true).sendData([new Uint8Array(2 ** 20)], 2 ** 20, () => released++);
      peer.connection.flush();
      for (let second = 0; second < 40; second++) {
        peer.appetite = reads;
        peer.connection.drained();
        peer.clock.advance(1e9);
      }
      expect([released, peer.terminated]).toEqual(reads === 0 ? [40, true] : [16, false]);
      peer.connection.lost();
    }
  });

  test("a peer with large frames gets large pieces unchanged, however little it takes at a time", () => {
    const peer = new Peer();
    peer.send(setting(5, 1_000_000), setting(4, 10_000_000), windowUpdate(0, 10_000_000));
    const stream = peer.open(1, true);
    peer.took();
    const body = Buffer.from(Uint8Array.from({ length: 1_000_003 }, (_, index) => index % 251));
    let released = 0;
    peer.appetite = 100_000;
    stream.sendData([body.subarray(0, 700_000), body.subarray(700_000)], body.length, () => released++);
    stream.sendTrailers(TRAILERS);
    peer.connection.flush();
    for (let turn = 0; turn < 100 && released === 0; turn++) {
      peer.appetite = 30_011;
      peer.connection.drained();
    }
    peer.appetite = Number.POSITIVE_INFINITY;
    peer.connection.drained();
    const frames = peer.take();
    const received = Buffer.concat(frames.filter((each) => each.type === 0).map((each) => each.payload));
    expect(received.equals(body)).toBe(true);
    expect(released).toBe(1);
    expect(frames.at(-1)).toMatchObject({ type: 1, flags: 5 });
  });

  test("what one turn adds leaves in one write", () => {
    const peer = new Peer();
    for (let id = 1; id < 15; id += 2) peer.open(id, true);
    peer.take();
    peer.writes = 0;
    for (const stream of peer.streams) {
      expect(stream.sendWhole(HEADERS, Buffer.from("12345"), [Buffer.from("body")], 4, TRAILERS)).toBe(true);
    }
    peer.connection.flush();
    expect(peer.writes).toBe(1);
    expect(peer.took().slice(0, 3)).toEqual(["HEADERS 1", "DATA 1 9", "HEADERS 1 end"]);
  });

  test("a response before the request's end resets the rest of the request without error", () => {
    const peer = new Peer();
    const stream = peer.open(1);
    peer.took();
    stream.sendHeaders(TRAILERS, true);
    peer.connection.flush();
    expect(peer.took()).toEqual(["HEADERS 1 end", "RST 1 0"]);
    peer.send(frame(0, 0, 1, Buffer.alloc(100)));
    peer.send(frame(1, 5, 1, encodeHeaderBlock([["x", "y"]])));
    expect(peer.took()).toEqual([]);
  });

  test("a lowered header table is acknowledged in the next block", () => {
    const peer = new Peer();
    peer.send(setting(1, 0));
    peer.open(1, true).sendHeaders(TRAILERS, true);
    peer.open(3, true).sendHeaders(TRAILERS, true);
    peer.connection.flush();
    const blocks = peer.take().filter((each) => each.type === 1);
    expect(blocks.map((each) => each.payload[0])).toEqual([0x20, TRAILERS[0]]);
  });

  test("a header block above the peer's frame size goes on in CONTINUATION", () => {
    const peer = new Peer();
    const block = encodeHeaderBlock([["x-long", "\u00ff".repeat(40_000)]]);
    peer.open(1, true).sendHeaders(block, true);
    peer.connection.flush();
    const frames = peer.take().filter((each) => each.streamId === 1);
    expect(frames.map(({ type, flags, payload }) => [type, flags, payload.length])).toEqual([
      [1, 1, 16_384],
      [9, 0, 16_384],
      [9, 4, block.length - 32_768],
    ]);
  });
});

describe("receiving", () => {
  test("windows are given back at half, the stream's not after its end", () => {
    const peer = new Peer({ streamWindowBytes: 1000, connectionWindowBytes: 65_535 });
    peer.open(1);
    peer.took();
    peer.send(frame(0, 0, 1, Buffer.alloc(499)));
    expect(peer.took()).toEqual([]);
    peer.send(frame(0, 0, 1, Buffer.alloc(1)));
    expect(peer.took()).toEqual(["WINDOW 1 500"]);
    peer.send(frame(0, 1, 1, Buffer.alloc(900)));
    expect(peer.took()).toEqual([]);
    for (let id = 3; id < 80; id += 2) {
      peer.open(id).sendHeaders(TRAILERS, true);
      peer.send(frame(0, 1, id, Buffer.alloc(1000)));
    }
    const updates = peer.took().filter((each) => each.startsWith("WINDOW"));
    expect(updates).toEqual(["WINDOW 0 33400"]);
  });

  test("DATA beyond the stream's window resets it, beyond the connection's ends all", () => {
    const peer = new Peer({ streamWindowBytes: 100 });
    peer.open(1);
    peer.took();
    peer.send(frame(0, 0, 1, Buffer.alloc(101)));
    expect(peer.took()).toEqual([`RST 1 ${H2_ERROR.FLOW_CONTROL_ERROR}`]);
    expect(peer.heard).toEqual(["1:aborted"]);

    const greedy = new Peer({ streamWindowBytes: 10_000_000, connectionWindowBytes: 65_535 });
    greedy.open(1);
    greedy.took();
    greedy.send(frame(0, 0, 1, Buffer.alloc(65_536)));
    expect(greedy.took()).toEqual([`GOAWAY 1 ${H2_ERROR.FLOW_CONTROL_ERROR}`]);
  });

  test("streams above the limit are refused, and their headers still feed the table", () => {
    const peer = new Peer({ streamsMax: 1 });
    peer.open(1);
    peer.took();
    // 40: literal with indexing, name "x", value "y"; the next block names it as entry 62.
    peer.send(frame(1, 5, 3, Buffer.concat([REQUEST, Buffer.from([0x40, 1, 0x78, 1, 0x79])])));
    expect(peer.took()).toEqual([`RST 3 ${H2_ERROR.REFUSED_STREAM}`]);
    peer.send(frame(3, 0, 1, uint32(8)));
    peer.send(frame(1, 5, 5, Buffer.concat([REQUEST, Buffer.from([0xbe])])));
    expect(peer.took()).toEqual([]);
    expect(peer.heard).toEqual(["1:aborted", "5:end"]);
  });

  test("equal header blocks share one head", () => {
    const peer = new Peer();
    const heads = new Set<unknown>();
    const owner = { request: (_: Http2Stream, head: unknown) => heads.add(head), wake: () => {} };
    const transport = {
      write: (_: Uint8Array, start: number, end: number) => end - start,
      shutdown() {},
      terminate() {},
    };
    const connection = new Http2Connection(transport, owner, { ...LIMITS, streamsMax: 100 }, peer.clock);
    connection.received(Buffer.concat([PREFACE, frame(4, 0, 0)]));
    for (let id = 1; id < 20; id += 2) connection.received(frame(1, 5, id, REQUEST));
    expect(heads.size).toBe(1);
  });

  test("floods end the connection", () => {
    const floods: [name: string, make: (index: number) => Buffer][] = [
      ["PING", () => frame(6, 0, 0, Buffer.alloc(8))],
      ["SETTINGS", () => frame(4, 0, 0)],
      ["empty DATA", () => frame(0, 0, 1)],
      ["PRIORITY", () => frame(2, 0, 1, Buffer.alloc(5))],
      ["rapid reset", (at) => Buffer.concat([frame(1, 5, 2 * at + 3, REQUEST), frame(3, 0, 2 * at + 3, uint32(8))])],
    ];
    for (const [name, make] of floods) {
      const peer = new Peer();
      peer.open(1);
      const last = () => peer.took().findLast((each) => each.startsWith("GOAWAY"));
      for (let index = 0; index < 10_001 && !peer.shutdown; index++) peer.send(make(index));
      expect([name, last()?.split(" ")[2]]).toEqual([name, String(H2_ERROR.ENHANCE_YOUR_CALM)]);
    }
  });

  test("a peer that asks and does not read is cut off", () => {
    const peer = new Peer();
    peer.appetite = 0;
    for (let index = 0; index < 30_000 && !peer.terminated; index++) {
      peer.send(frame(6, 0, 0, Buffer.alloc(8)));
      peer.clock.advance(1e9);
    }
    expect(peer.terminated).toBe(true);
  });

  test("CONTINUATION without end is cut off", () => {
    const peer = new Peer();
    peer.took();
    peer.send(frame(1, 1, 1, REQUEST));
    for (let index = 0; index < 40; index++) peer.send(frame(9, 0, 1));
    expect(peer.took()).toEqual([`GOAWAY 0 ${H2_ERROR.ENHANCE_YOUR_CALM}`]);
    expect(peer.shutdown).toBe(true);
    peer.clock.advance(1e9);
    expect(peer.terminated).toBe(true);
  });
});

describe("ends", () => {
  test("drain: GOAWAY twice, running streams finish, then the connection closes", () => {
    const peer = new Peer();
    const first = peer.open(1, true);
    peer.took();
    peer.connection.drain();
    peer.connection.flush();
    expect(peer.took()).toEqual([`GOAWAY ${2 ** 31 - 1} 0`, "PING"]);
    const second = peer.open(3, true);
    peer.send(frame(6, 1, 0, Buffer.alloc(8)));
    expect(peer.took()).toEqual(["GOAWAY 3 0"]);
    peer.send(frame(1, 5, 5, REQUEST));
    expect(peer.streams.length).toBe(2);
    for (const stream of [first, second]) stream.sendHeaders(TRAILERS, true);
    expect(peer.shutdown).toBe(false);
    peer.connection.flush();
    expect(peer.took()).toEqual(["HEADERS 1 end", "HEADERS 3 end"]);
    expect(peer.shutdown).toBe(true);
  });

  test("a lost connection aborts its streams and releases what waits", () => {
    const peer = new Peer();
    const stream = peer.open(1);
    let released = 0;
    stream.sendData([new Uint8Array(200_000)], 200_000, () => released++);
    peer.connection.lost();
    expect(peer.heard).toEqual(["1:aborted"]);
    expect(released).toBe(1);
    stream.sendData([new Uint8Array(1)], 1, () => released++);
    stream.sendTrailers(TRAILERS);
    expect(released).toBe(2);
  });

  test("RST_STREAM from the peer aborts the stream once", () => {
    const peer = new Peer();
    const stream = peer.open(1, true);
    let released = 0;
    stream.sendData([new Uint8Array(200_000)], 200_000, () => released++);
    peer.send(frame(3, 0, 1, uint32(8)), frame(3, 0, 1, uint32(8)));
    expect(peer.heard).toEqual(["1:end", "1:aborted"]);
    expect(released).toBe(1);
    expect(peer.connection.streams.size).toBe(0);
  });
});

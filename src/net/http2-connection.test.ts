// A connection in memory: windows to the byte, bounds, floods, resets and the ways it ends.

import { describe, expect, test } from "bun:test";
import { frame, LIMITS, Peer, REQUEST, TRAILERS, uint32 } from "../../tests/support/http2-peer.ts";
import { H2_ERROR, PREFACE } from "./frames.ts";
import { Http2Connection } from "./http2-connection.ts";
import type { Http2Stream } from "./http2-stream.ts";

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

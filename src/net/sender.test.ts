// What a connection sends, in memory: windows to the byte, turns, and how much goes out at once.

import { describe, expect, test } from "bun:test";
import { frame, HEADERS, Peer, setting, TRAILERS, windowUpdate } from "../../tests/support/http2-peer.ts";
import { CONNECTION_OUTPUT_BYTES_MAX } from "../base/limits.ts";
import { encodeHeaderBlock } from "./hpack-encoder.ts";

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

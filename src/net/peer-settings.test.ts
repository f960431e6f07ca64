// SETTINGS with many entries, in memory: what they come to, what they break on the way, and what they may cost.

import { expect, test } from "bun:test";
import { frame, HEADERS, Peer, TRAILERS, uint32 } from "../../tests/support/http2-peer.ts";
import { H2_ERROR } from "./frames.ts";

/** One SETTINGS frame of many entries. */
const settings = (...entries: (readonly [id: number, value: number])[]) =>
  frame(4, 0, 0, Buffer.concat(entries.map(([id, value]) => Buffer.concat([Buffer.from([0, id]), uint32(value)]))));

test("a window that goes up and down in one frame counts as it ends", () => {
  const peer = new Peer();
  const stream = peer.open(1, true);
  peer.took();
  peer.send(settings([4, 0], [4, 2 ** 31 - 1], [4, 2]));
  stream.sendHeaders(HEADERS, false);
  stream.sendData([Buffer.from("abc")], 3);
  stream.sendTrailers(TRAILERS);
  peer.connection.flush();
  expect(peer.took()).toEqual(["SETTINGS ack", "HEADERS 1", "DATA 1 2"]);
  peer.send(settings([4, 3]));
  expect(peer.took()).toEqual(["SETTINGS ack", "DATA 1 1", "HEADERS 1 end"]);
});

test("a stream's window that overflows on the way ends the connection", () => {
  const peer = new Peer();
  peer.open(1, true);
  peer.send(frame(8, 0, 1, uint32(1)));
  peer.took();
  peer.send(settings([4, 2 ** 31 - 1], [4, 1]));
  expect(peer.took()).toEqual([`GOAWAY 1 ${H2_ERROR.FLOW_CONTROL_ERROR}`]);
});

test("full frames of settings are a flood after some dozen, single ones are not", () => {
  const full = settings(...Array.from({ length: 1000 }, (_, index) => [4, 1000 + (index % 2)] as const));
  const peer = new Peer();
  let frames = 0;
  while (!peer.shutdown && frames < 1000) {
    peer.send(full);
    frames++;
  }
  expect(peer.took().at(-1)).toBe(`GOAWAY 0 ${H2_ERROR.ENHANCE_YOUR_CALM}`);
  expect(frames).toBeLessThan(400);
  const polite = new Peer();
  for (let index = 0; index < 1000; index++) polite.send(settings([4, 1000 + index]));
  expect(polite.shutdown).toBe(false);
});

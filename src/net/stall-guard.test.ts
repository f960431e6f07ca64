// Readers who are slow, in memory: replies are copied, connections ended, and the slowest go first when it is too much.

import { expect, test } from "bun:test";
import { Peer, setting, TRAILERS, windowUpdate } from "../../tests/support/http2-peer.ts";
import { VirtualClock } from "../base/clock.ts";
import { STALLED_REPLY_BYTES_MAX } from "../base/limits.ts";
import { SendBudget } from "./send-budget.ts";

const MIB = 2 ** 20;

/** A peer with windows that never end, and `count` replies of `bytes` queued that it does not take. */
function slowPeer(count: number, bytes: number, shared?: { clock: VirtualClock; budget: SendBudget }) {
  const peer = new Peer({ streamsMax: 100 }, shared?.clock, shared?.budget);
  peer.send(setting(4, 2 ** 30), windowUpdate(0, 2 ** 30));
  peer.took();
  peer.appetite = 0;
  let released = 0;
  for (let index = 0; index < count; index++) {
    peer.open(2 * index + 1, true).sendData([new Uint8Array(bytes)], bytes, () => released++);
  }
  peer.connection.flush();
  return {
    peer,
    released: () => released,
    /** Reads `bytesPerSecond` for `seconds`, or until it is cut off. */
    read(bytesPerSecond: number, seconds: number) {
      for (let tenth = 0; tenth < seconds * 10 && !peer.terminated; tenth++) {
        peer.appetite = bytesPerSecond / 10;
        peer.connection.drained();
        peer.clock.advance(100e6);
      }
    },
  };
}

test("replies of a stalled reader are copied and released, unchanged; one that moves is left alone", () => {
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
  peer.appetite = 100_000;
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
  const { peer, released } = slowPeer(40, MIB);
  for (let turn = 0; turn < 5; turn++) peer.clock.advance(100e6);
  expect(released()).toBe(STALLED_REPLY_BYTES_MAX / MIB);
  peer.connection.lost();
  expect(released()).toBe(40);
});

test("a peer that takes too little is given up, whether nothing or a trickle; one that is merely slow is not", () => {
  const fates = [0, 10, 1000, 100_000].map((bytesPerSecond) => {
    const slow = slowPeer(40, MIB);
    slow.read(bytesPerSecond, 20);
    return slow.peer.terminated;
  });
  expect(fates).toEqual([true, true, true, false]);
});

test("pings are no progress", () => {
  const { peer } = slowPeer(40, MIB);
  const ping = Buffer.from([0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
  for (let tenth = 0; tenth < 200 && !peer.terminated; tenth++) {
    for (let each = 0; each < 100; each++) peer.send(ping);
    peer.appetite = 1700;
    peer.connection.drained();
    peer.clock.advance(100e6);
  }
  expect(peer.terminated).toBe(true);
});

test("above half of the budget the slowest connection goes, then the next, until it is enough", () => {
  const clock = new VirtualClock();
  const shared = { clock, budget: new SendBudget(100 * MIB, clock) };
  const first = slowPeer(1, 30 * MIB, shared);
  clock.advance(1e9);
  const second = slowPeer(1, 30 * MIB, shared);
  clock.advance(0.5e9);
  expect([first.released(), second.released()]).toEqual([0, 0]);
  clock.advance(1e9);
  expect([first.released(), second.released()]).toEqual([1, 0]);
  expect([first.peer.shutdown, second.peer.shutdown]).toEqual([true, false]);
  expect(shared.budget.queuedBytes).toBeLessThan(31 * MIB);
  second.peer.connection.lost();
  expect(shared.budget.queuedBytes).toBe(0);
});

test("a full budget admits only small replies, and those within their room; one alone always", () => {
  const clock = new VirtualClock();
  const budget = new SendBudget(10 * MIB, clock);
  expect(budget.admits(20 * MIB)).toBe(true);
  const { peer } = slowPeer(1, 9 * MIB, { clock, budget });
  expect([budget.admits(MIB / 2), budget.admits(2 * MIB), budget.admits(60_000)]).toEqual([true, false, true]);
  budget.queuedBytes += 80 * MIB;
  expect(budget.admits(60_000)).toBe(false);
  budget.queuedBytes -= 80 * MIB;
  clock.advance(2e9); // the peer is slow by now: it makes room
  expect(budget.admits(2 * MIB)).toBe(true);
  expect(peer.shutdown).toBe(true);
});

// What a peer leaves lying, in memory: a connection without a request, a header block, a request that stands still.

import { expect, test } from "bun:test";
import { frame, HEADERS, Peer, REQUEST, TRAILERS } from "../../tests/support/http2-peer.ts";
import { NS_PER_S } from "../base/clock.ts";
import { H2_ERROR } from "./frames.ts";
import { Http2Connection } from "./http2-connection.ts";

/** Lets `seconds` pass, with a look each, and writes what came of it. */
function wait(peer: Peer, seconds: number): string[] {
  for (let second = 0; second < seconds; second++) {
    peer.clock.advance(NS_PER_S);
    peer.connection.look();
  }
  peer.connection.flush();
  return peer.took();
}

test("a connection without its first request, or without another for long, is drained", () => {
  const peer = new Peer();
  peer.took();
  expect(wait(peer, 10)).toEqual([]);
  expect(wait(peer, 3)).toEqual([`GOAWAY 2147483647 0`, "PING", "GOAWAY 0 0"]);
  expect([peer.shutdown, peer.terminated]).toEqual([true, true]);

  const idle = new Peer();
  for (const id of [1, 3]) {
    idle.open(id, true).sendHeaders(TRAILERS, true);
    idle.connection.flush();
    idle.took();
    expect(wait(idle, 299)).toEqual([]);
  }
  expect(wait(idle, 4)).toEqual([`GOAWAY 2147483647 0`, "PING", "GOAWAY 3 0"]);
  expect(idle.terminated).toBe(true);
});

test("a connection with a call that runs may stay as long as it does", () => {
  const peer = new Peer();
  peer.open(1, true);
  peer.took();
  expect(wait(peer, 1000)).toEqual([]);
});

test("a peer that sends no SETTINGS is cut off", () => {
  const { clock } = new Peer();
  let terminated = false;
  const connection = new Http2Connection(
    {
      write: (_, start, end) => end - start,
      shutdown: () => {},
      terminate: () => {
        terminated = true;
      },
    },
    { request: () => {}, wake: () => {} },
    { streamsMax: 1, streamWindowBytes: 1000, connectionWindowBytes: 1000, headerListBytesMax: 1000 },
    clock,
  );
  for (let second = 0; second < 12; second++) {
    clock.advance(NS_PER_S);
    connection.look();
  }
  expect(terminated).toBe(true);
});

test("a header block that is not completed ends the connection", () => {
  const peer = new Peer();
  peer.open(1, true);
  peer.took();
  peer.send(frame(1, 0, 3, REQUEST));
  expect(wait(peer, 30)).toEqual([]);
  expect(wait(peer, 1)).toEqual([`GOAWAY 1 ${H2_ERROR.ENHANCE_YOUR_CALM}`]);
});

test("a request without progress is given up, one that moves is not", () => {
  const peer = new Peer({ streamWindowBytes: 2 ** 30, connectionWindowBytes: 2 ** 30 });
  const [still, trickles, moves, pauses] = [1, 3, 5, 7].map((id) => peer.open(id));
  pauses!.mayPause = true;
  peer.took();
  for (let second = 0; second < 40; second++) {
    if (!trickles!.localClosed) peer.send(frame(0, 0, 3, Buffer.alloc(100)));
    peer.send(frame(0, 0, 5, Buffer.alloc(10_000)));
    wait(peer, 1);
  }
  expect(peer.heard.filter((each) => !/\d$/.test(each))).toEqual(["1:stalled", "3:stalled"]);
  expect([still, trickles, moves, pauses].map((stream) => stream!.localClosed)).toEqual([true, true, false, false]);
});

test("a server that stops has every call answered, then says goodbye", () => {
  const peer = new Peer();
  peer.open(1, true);
  peer.open(3).sendHeaders(HEADERS, false);
  peer.connection.flush();
  peer.took();
  peer.connection.stop();
  expect(peer.heard.slice(-2)).toEqual(["1:end", "1:stopping"].slice(1).concat("3:stopping"));
  expect(peer.took()).toEqual(["HEADERS 1 end", "HEADERS 3 end", "RST 3 0", "GOAWAY 3 0"]);
  expect(peer.shutdown).toBe(true);
});

// gRPC messages come out the same however the body is cut, and oversize ones are refused by their prefix.

import { expect, test } from "bun:test";
import { ServerError } from "../base/errors.ts";
import type { ByteSource } from "../tensor/byte-source.ts";
import { MessageReader } from "./message-reader.ts";

const IGNORE = { message: () => {} };

function message(text: string, flag = 0, encoding: BufferEncoding = "utf8"): Buffer {
  const body = Buffer.from(text, encoding);
  const head = Buffer.alloc(5);
  head[0] = flag;
  head.writeUInt32BE(body.length, 1);
  return Buffer.concat([head, body]);
}

test("messages come whole however the body is cut", () => {
  const texts = ["", "a", "hello world", "", "x".repeat(40)];
  const body = Buffer.concat(texts.map((text) => message(text)));
  for (let cut = 0; cut <= body.length; cut++) {
    const heard: string[] = [];
    const reader = new MessageReader(100, {
      message: (source) => heard.push(Buffer.from(source.contiguous()).toString()),
    });
    reader.read(body, 0, cut);
    reader.read(body, cut, body.length);
    expect({ cut, heard, whole: reader.atBoundary }).toEqual({ cut, heard: texts, whole: true });
  }
});

test("scraps are gathered, large pieces are views, and the order stays", () => {
  for (let seed = 1; seed <= 50; seed++) {
    let state = seed;
    const next = (below: number) => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return state % below;
    };
    const body = Buffer.from(Uint8Array.from({ length: 100_000 }, (_, index) => (index * seed) % 251));
    const whole = message(body.toString("latin1"), 0, "latin1");
    const heard: ByteSource[] = [];
    const reader = new MessageReader(200_000, { message: (source) => heard.push(source) });
    for (let at = 0; at < whole.length; ) {
      const piece = Math.min(1 + next(next(4) === 0 ? 5000 : 30), whole.length - at);
      reader.read(whole, at, at + piece);
      at += piece;
    }
    expect({ seed, equal: body.equals(heard[0]!.contiguous()) }).toEqual({ seed, equal: true });
  }
  const bytewise: ByteSource[] = [];
  const reader = new MessageReader(200_000, { message: (source) => bytewise.push(source) });
  const whole = message("x".repeat(100_000));
  for (let at = 0; at < whole.length; at++) reader.read(whole, at, at + 1);
  expect(bytewise[0]!.chunks.length).toBe(Math.ceil(100_000 / 16_384));
});

test("a message under way is no boundary", () => {
  const reader = new MessageReader(100, IGNORE);
  const body = message("abc");
  for (const cut of [1, 4, 5, 7]) {
    const fresh = new MessageReader(100, IGNORE);
    fresh.read(body, 0, cut);
    expect(fresh.atBoundary).toBe(false);
  }
  reader.read(body, 0, body.length);
  expect(reader.atBoundary).toBe(true);
});

test("size and flag are judged by the prefix alone", () => {
  const refusal = (bytes: Buffer) => {
    try {
      new MessageReader(100, IGNORE).read(bytes, 0, bytes.length);
    } catch (error) {
      return error instanceof ServerError ? [error.code, error.message] : error;
    }
    return undefined;
  };
  expect(refusal(message("x".repeat(101)).subarray(0, 5))).toEqual([
    "RESOURCE_EXHAUSTED",
    "request message of 101 bytes exceeds the limit of 100 bytes",
  ]);
  expect(refusal(message("x".repeat(100)))).toBeUndefined();
  expect(refusal(message("", 1))).toEqual([
    "INTERNAL",
    "message with compressed flag 1, but grpc-encoding is identity",
  ]);
});

// gRPC messages come out the same however the body is cut, and oversize ones are refused by their prefix.

import { expect, test } from "bun:test";
import { ServerError } from "../base/errors.ts";
import { MessageReader } from "./message-reader.ts";

function message(text: string, flag = 0): Buffer {
  const body = Buffer.from(text);
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
    const reader = new MessageReader(100, (source) => heard.push(Buffer.from(source.contiguous()).toString()));
    reader.read(body, 0, cut);
    reader.read(body, cut, body.length);
    expect({ cut, heard, whole: reader.atBoundary }).toEqual({ cut, heard: texts, whole: true });
  }
});

test("a message under way is no boundary", () => {
  const reader = new MessageReader(100, () => {});
  const body = message("abc");
  for (const cut of [1, 4, 5, 7]) {
    const fresh = new MessageReader(100, () => {});
    fresh.read(body, 0, cut);
    expect(fresh.atBoundary).toBe(false);
  }
  reader.read(body, 0, body.length);
  expect(reader.atBoundary).toBe(true);
});

test("size and flag are judged by the prefix alone", () => {
  const refusal = (bytes: Buffer) => {
    try {
      new MessageReader(100, () => {}).read(bytes, 0, bytes.length);
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

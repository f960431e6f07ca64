// 64-bit words as numbers, views over addresses, arenas and handle counts.

import { expect, test } from "bun:test";
import {
  Arena,
  addressesAt,
  addressOf,
  bytesAt,
  handleCounter,
  int32sAt,
  int64Array,
  int64sAt,
  liveHandles,
  loadInt64,
  loadUint64,
  NULL,
  storeInt64,
  textAt,
} from "./memory.ts";

test("64-bit integers cross as two words, up to 2^53 of either sign", () => {
  const words = new Uint32Array(2);
  for (const value of [0, 1, -1, 2 ** 32 - 1, 2 ** 32, -(2 ** 32), 2 ** 53 - 1, -(2 ** 53) + 1, 0x7f1234567890]) {
    storeInt64(words, 0, value);
    expect(loadInt64(words, 0)).toBe(value);
    expect(new BigInt64Array(words.buffer)[0]).toBe(BigInt(value));
    if (value >= 0) expect(loadUint64(words, 0)).toBe(value);
  }
});

test("views over an address see the same memory", () => {
  const bytes = new Uint8Array([1, 2, 3, 4]);
  const view = bytesAt(addressOf(bytes), 4);
  view[0] = 9;
  expect([...bytes]).toEqual([9, 2, 3, 4]);
  expect(bytesAt(NULL, 0)).toEqual(new Uint8Array(0));
  expect(addressOf(new Uint8Array(0))).toBe(NULL);
});

test("native arrays become numbers", () => {
  const int64s = int64Array([5, -6, 2 ** 40]);
  expect(int64sAt(addressOf(int64s), 3)).toEqual([5, -6, 2 ** 40]);
  const int32s = new Int32Array([7, -8]);
  expect(int32sAt(addressOf(int32s), 2)).toEqual([7, -8]);
  const pointers = int64Array([addressOf(int64s), NULL]);
  expect(addressesAt(addressOf(pointers), 2)).toEqual([addressOf(int64s), NULL]);
});

test("an arena's text is terminated and of the length it says", () => {
  using arena = new Arena();
  const text = arena.text("Zürich");
  expect(text.byteLength).toBe(7);
  expect(textAt(text.address, 7)).toBe("Zürich");
  expect(bytesAt(text.address, 8)[7]).toBe(0);
  expect(arena.text("").byteLength).toBe(0);
});

test("handle counts show what is alive, by noun", () => {
  const counter = handleCounter("test handle");
  expect(liveHandles()).not.toHaveProperty(["test handle"]);
  counter.live += 2;
  expect(liveHandles()["test handle"]).toBe(2);
  counter.live -= 2;
  expect(liveHandles()).not.toHaveProperty(["test handle"]);
});

// Offsets, sizes and accessors of struct layouts, on a struct with every kind of field.

import { expect, test } from "bun:test";
import { layout } from "./layout.ts";
import { addressOf, NULL } from "./memory.ts";

const Inner = layout("Inner", { flag: "bool", number: "i32" });

const Everything = layout("Everything", {
  size: "size",
  flag: "bool",
  signed: "i32",
  pointer: "pointer",
  inner: Inner,
  union_int: "i64",
  union_float: { over: "union_int", kind: "f32" },
  last: "bool",
});

test("fields are placed by C's rules", () => {
  expect(Everything.placements).toEqual({
    size: { offset: 0, size: 8 },
    flag: { offset: 8, size: 1 },
    signed: { offset: 12, size: 4 },
    pointer: { offset: 16, size: 8 },
    inner: { offset: 24, size: 8 },
    union_int: { offset: 32, size: 8 },
    union_float: { offset: 32, size: 4 },
    last: { offset: 40, size: 1 },
  });
  expect([Everything.size, Everything.stride, Everything.alignment]).toEqual([41, 48, 8]);
  expect([Inner.size, Inner.stride, Inner.alignment]).toEqual([8, 8, 4]);
});

test("a view reads what it wrote, zero at first, through a second view as well", () => {
  const struct = Everything.allocate();
  expect([struct.size, struct.pointer, struct.signed, struct.flag]).toEqual([0, NULL, 0, false]);
  struct.size = 2 ** 40 + 5;
  struct.flag = true;
  struct.signed = -7;
  struct.union_int = -(2 ** 45) - 3;
  struct.pointer = struct.address;
  struct.inner.number = 9;
  struct.last = true;
  const other = Everything.at(struct.address);
  expect([other.size, other.flag, other.signed, other.pointer]).toEqual([2 ** 40 + 5, true, -7, struct.address]);
  expect([other.union_int, other.inner.number, other.inner.flag, other.last]).toEqual([-(2 ** 45) - 3, 9, false, true]);
  struct.union_float = 0.5;
  expect(other.union_float).toBe(0.5);
});

test("array elements lie side by side", () => {
  const [first, second] = Everything.allocateArray(2);
  second!.signed = 4;
  expect(second!.address - first!.address).toBe(Everything.stride);
  expect(first!.signed).toBe(0);
  expect(Everything.allocateArray(0)).toEqual([]);
});

test("the C memory is what the fields say", () => {
  const struct = Everything.allocate();
  struct.size = 0x1122334455;
  struct.signed = -1;
  const bytes = new Uint8Array(48);
  bytes.set([0x55, 0x44, 0x33, 0x22, 0x11]);
  bytes.set([0xff, 0xff, 0xff, 0xff], 12);
  const { bytes: actual } = struct as unknown as { bytes: Uint8Array };
  expect(addressOf(actual)).toBe(struct.address);
  expect(actual).toEqual(bytes);
});

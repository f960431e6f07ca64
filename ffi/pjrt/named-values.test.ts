// Named values survive the way into C's layout and back.

import { expect, test } from "bun:test";
import { Arena } from "../memory.ts";
import { decodeNamedValues, encodeNamedValues } from "./named-values.ts";

test("strings, integers, lists, floats and booleans", () => {
  using arena = new Arena();
  const options = {
    allocator: "bfc",
    cpu_device_count: 4,
    negative: -(2 ** 40),
    visible_devices: [0, 3],
    none: [],
    memory_fraction: { float: 0.75 },
    preallocate: true,
    off: false,
    empty: "",
  };
  const { address, count } = encodeNamedValues(options, arena);
  expect(decodeNamedValues(address, count)).toEqual({ ...options, memory_fraction: 0.75 });
});

test("no options", () => {
  using arena = new Arena();
  const { address, count } = encodeNamedValues({}, arena);
  expect(decodeNamedValues(address, count)).toEqual({});
});

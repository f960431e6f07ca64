// IdleTrim trims once after a quiet second, never while something runs.

import { expect, test } from "bun:test";
import { NS_PER_MS, VirtualClock } from "../base/clock.ts";
import { IdleTrim } from "./idle-trim.ts";

test("trims once when nothing has run for a while", () => {
  const clock = new VirtualClock();
  let trims = 0;
  using trim = new IdleTrim(clock, () => trims++);
  clock.advance(5000 * NS_PER_MS);
  expect(trims).toBe(0);
  for (let run = 0; run < 50; run++) {
    trim.note();
    clock.advance(100 * NS_PER_MS);
  }
  expect(trims).toBe(0);
  clock.advance(5000 * NS_PER_MS);
  expect(trims).toBe(1);
  trim.note();
  clock.advance(999 * NS_PER_MS);
  expect(trims).toBe(1);
  clock.advance(NS_PER_MS);
  expect(trims).toBe(2);
});

// The bound on a hook's lines: a second's worth passes, the rest is told once, whether or not another line follows.

import { expect, test } from "bun:test";
import { NS_PER_S, VirtualClock } from "../base/clock.ts";
import { HOOK_LINES_PER_SECOND_MAX } from "../base/limits.ts";
import { LineGate } from "./line-gate.ts";

test("a flood is cut, its loss is told at the second's end, and the next second is free", () => {
  const clock = new VirtualClock();
  const dropped: number[] = [];
  const gate = new LineGate(clock, (lines) => dropped.push(lines));
  const admitted = (lines: number) => Array.from({ length: lines }, () => gate.admits()).filter(Boolean).length;
  expect(admitted(HOOK_LINES_PER_SECOND_MAX)).toBe(HOOK_LINES_PER_SECOND_MAX);
  expect(admitted(7)).toBe(0);
  expect(dropped).toEqual([]);
  clock.advance(NS_PER_S);
  expect(dropped).toEqual([7]);
  expect(admitted(HOOK_LINES_PER_SECOND_MAX + 1)).toBe(HOOK_LINES_PER_SECOND_MAX);
  expect(admitted(1)).toBe(0);
  clock.advance(5 * NS_PER_S);
  expect(dropped).toEqual([7, 2]);
  expect([admitted(1), clock.nextNs()]).toEqual([1, undefined]);
});

test("where no timer gets its turn, the next line tells", () => {
  let nowNs = 0;
  const clock = { nowNs: () => nowNs, wallMs: () => 0, after: () => ({ cancel() {} }), soon() {} };
  const dropped: number[] = [];
  const gate = new LineGate(clock, (lines) => dropped.push(lines));
  for (let line = 0; line < HOOK_LINES_PER_SECOND_MAX + 3; line++) gate.admits();
  nowNs = NS_PER_S;
  expect([gate.admits(), dropped]).toEqual([true, [3]]);
});

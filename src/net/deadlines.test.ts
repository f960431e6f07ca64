// Deadlines expire in order and on time on a virtual clock, and removed ones never do.

import { expect, test } from "bun:test";
import { VirtualClock } from "../base/clock.ts";
import { Deadlines, type Expiring } from "./deadlines.ts";

function entry(deadlineNs: number, onExpire: (deadlineNs: number) => void): Expiring {
  return { deadlineNs, heapIndex: -1, expire: () => onExpire(deadlineNs) };
}

test("entries expire in order, at their time, removed ones never", () => {
  const clock = new VirtualClock();
  const deadlines = new Deadlines(clock);
  const expired: [atNs: number, deadlineNs: number][] = [];
  const entries = Array.from({ length: 200 }, (_, index) =>
    entry(((index * 7919) % 200) * 10 + 5, (deadlineNs) => expired.push([clock.nowNs(), deadlineNs])),
  );
  for (const each of entries) deadlines.add(each);
  const removed = new Set(entries.filter((_, index) => index % 3 === 0));
  for (const each of removed) deadlines.remove(each);
  for (const each of removed) deadlines.remove(each);
  while (clock.step());
  const expected = entries.filter((each) => !removed.has(each)).map((each) => each.deadlineNs!);
  expected.sort((a, b) => a - b);
  expect(expired).toEqual(expected.map((deadlineNs) => [deadlineNs, deadlineNs]));
  expect(deadlines.size).toBe(0);
});

test("an earlier deadline that comes later moves the timer", () => {
  const clock = new VirtualClock();
  const deadlines = new Deadlines(clock);
  const expired: number[] = [];
  deadlines.add(entry(1000, (at) => expired.push(at)));
  deadlines.add(entry(10, (at) => expired.push(at)));
  clock.advance(10);
  expect(expired).toEqual([10]);
  clock.advance(990);
  expect(expired).toEqual([10, 1000]);
});

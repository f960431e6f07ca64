// Who goes when requests that are being received are too many.

import { expect, test } from "bun:test";
import { VirtualClock } from "../base/clock.ts";
import { ReceiveBudget } from "./receive-budget.ts";

const KIB = 1024;

function budgetOf(bytesMax: number) {
  const clock = new VirtualClock();
  const budget = new ReceiveBudget(bytesMax, clock);
  const ended: string[] = [];
  const begin = (name: string, bytes: number) => {
    const reception = budget.begin({ overBudget: (held) => ended.push(`${name} at ${held / KIB}`) });
    budget.charge(reception, bytes);
    return reception;
  };
  return { clock, budget, ended, begin };
}

test("above the budget the newest request goes, until the rest fits; the oldest always ends", () => {
  const { budget, ended, begin } = budgetOf(1000 * KIB);
  const oldest = begin("oldest", 400 * KIB);
  begin("middle", 300 * KIB);
  begin("newest", 200 * KIB);
  expect(ended).toEqual([]);
  budget.charge(oldest, 150 * KIB);
  expect(ended).toEqual(["newest at 1050"]);
  budget.charge(oldest, 450 * KIB);
  expect(ended).toEqual(["newest at 1050", "middle at 1300"]);
  expect(budget.heldBytes).toBe(1000 * KIB);
  budget.release(oldest);
  budget.release(oldest);
  expect(budget.heldBytes).toBe(0);
});

test("small requests go only when there is no large one, and the newest of them first", () => {
  const { budget, ended, begin } = budgetOf(200 * KIB);
  const large = begin("large", 150 * KIB);
  begin("health", 10 * KIB);
  begin("small", 50 * KIB);
  expect(ended).toEqual(["large at 210"]);
  budget.release(large);
  begin("small too", 60 * KIB);
  begin("small again", 60 * KIB);
  begin("last", 60 * KIB);
  expect(ended).toEqual(["large at 210", "last at 240"]);
});

test("a large request that comes slowly loses its place to those that move", () => {
  const { clock, budget, ended, begin } = budgetOf(1000 * KIB);
  const slow = begin("slow", 500 * KIB);
  const fast = begin("fast", 100 * KIB);
  clock.advance(1e9);
  for (let second = 0; second < 3; second++) {
    budget.charge(slow, 1);
    budget.charge(fast, 100 * KIB);
    clock.advance(1e9);
  }
  budget.charge(fast, 200 * KIB);
  expect(ended[0]).toStartWith("slow");
  budget.release(fast);
  clock.advance(2e9);
  expect(clock.nextNs()).toBeUndefined();
});

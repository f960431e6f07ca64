// A bounded number of calls that stay open: places come back however a call ends, and a drain ends them all.

import { expect, test } from "bun:test";
import { openMemoryRpc } from "../../tests/support/memory-rpc.ts";
import { STANDING_CALLS_SWEPT_MIN } from "../base/limits.ts";
import type { Rpc } from "../net/rpc.ts";
import { StandingCalls } from "./standing-calls.ts";

const silent = { message() {}, halfClose() {} };

function standing(openMax: number) {
  const calls = new StandingCalls<{ call: Rpc }>("test calls", openMax);
  const open = () =>
    openMemoryRpc({
      kind: "streaming",
      open(call) {
        calls.admit({ call });
        return silent;
      },
    });
  return { calls, open };
}

test("as many as may are open; a place is free again when a client vanishes or its call ends", () => {
  const { calls, open } = standing(3);
  const [first, second] = [open(), open(), open()];
  const refused = open();
  expect(refused.status).toBe("RESOURCE_EXHAUSTED test calls: 3 are open, at most 3");
  first!.vanish();
  expect(open().status).toBeUndefined();
  second!.rpc.end("INVALID_ARGUMENT");
  expect(open().status).toBeUndefined();
  expect(calls.open()).toHaveLength(3);
});

test("of calls that ended without a word only some are remembered", () => {
  const { calls, open } = standing(1_000_000);
  const kept = open();
  for (let index = 0; index < 10 * STANDING_CALLS_SWEPT_MIN; index++) open().rpc.end("OK");
  const { members } = calls as unknown as { members: Set<unknown> };
  expect(members.size).toBeLessThanOrEqual(STANDING_CALLS_SWEPT_MIN);
  expect(calls.open()).toEqual([{ call: kept.rpc }]);
});

test("a drain ends what is open and refuses what comes", () => {
  const { calls, open } = standing(10);
  const [first, second] = [open(), open()];
  second.vanish();
  calls.drain();
  expect(first.status).toBe("UNAVAILABLE the server is draining");
  expect(second.status).toBeUndefined();
  expect(open().status).toBe("UNAVAILABLE the server is draining");
  expect(calls.open()).toEqual([]);
});

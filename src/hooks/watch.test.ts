// The watch on a virtual clock: who is ended, when, and for whose memory.

import { expect, test } from "bun:test";
import { VirtualClock } from "../base/clock.ts";
import { HOOK_WATCH_NS } from "../base/limits.ts";
import { HookWatch, type Watched } from "./watch.ts";

class Hook implements Watched {
  startNs: number | undefined;
  /** Its order was given, its thread is still starting. */
  starting = false;
  baselineBytes: number | undefined;
  constructor(
    readonly name: string,
    private readonly limitMs = 1000,
  ) {}
  get timeLimitMs(): number {
    return this.starting || this.startNs !== undefined ? this.limitMs : Number.POSITIVE_INFINITY;
  }
  runningNs(nowNs: number): number | undefined {
    return this.startNs === undefined ? undefined : nowNs - this.startNs;
  }
}

function scene(...hooks: Hook[]) {
  const clock = new VirtualClock();
  const memory = { residentBytes: 1000 };
  const ended: string[] = [];
  const end = (hook: Hook, why: string) => {
    hook.startNs = undefined;
    ended.push(`${hook.name}: ${why}`);
  };
  const watch = new HookWatch<Hook>({
    clock,
    memoryBoundBytes: 100,
    residentBytes: () => memory.residentBytes,
    watched: () => hooks,
    onTimeLimit: (hook) => end(hook, "time"),
    onMemoryBound: (hook, grownBytes) => end(hook, `${grownBytes} bytes`),
  });
  const run = (hook: Hook) => {
    hook.startNs = clock.nowNs();
    hook.baselineBytes = undefined;
    watch.start();
  };
  return { clock, memory, ended, run, look: () => clock.advance(HOOK_WATCH_NS) };
}

test("a hook over its limit is ended, the others run on; then nothing is watched", () => {
  const [short, long] = [new Hook("short", 50), new Hook("long", 90)];
  const { clock, ended, run, look } = scene(short, long);
  run(short);
  run(long);
  look();
  look();
  expect(ended).toEqual([]);
  look();
  expect(ended).toEqual(["short: time"]);
  look();
  look();
  expect(ended).toEqual(["short: time", "long: time"]);
  expect(clock.nextNs()).toBeUndefined();
});

test("a hook whose thread is still starting is waited for, and then watched", () => {
  const slow = new Hook("slow", 30);
  const { clock, ended, run, look } = scene(slow);
  slow.starting = true;
  run(slow);
  slow.startNs = undefined;
  for (let looks = 0; looks < 10; looks++) look();
  expect(ended).toEqual([]);
  slow.startNs = clock.nowNs();
  slow.starting = false;
  look();
  look();
  expect(ended).toEqual(["slow: time"]);
  expect(clock.nextNs()).toBeUndefined();
});

test("growth is laid to the hook that runs longest, once", () => {
  const [first, second] = [new Hook("first"), new Hook("second")];
  const { memory, ended, run, look } = scene(first, second);
  run(first);
  look();
  run(second);
  look();
  memory.residentBytes += 101;
  look();
  // The memory is still there, but counts as the state of things from which the second hook's growth is measured.
  look();
  expect(ended).toEqual(["first: 101 bytes"]);
  memory.residentBytes += 101;
  look();
  expect(ended).toEqual(["first: 101 bytes", "second: 101 bytes"]);
});

test("memory that grew before a hook began is not its fault", () => {
  const [early, late] = [new Hook("early"), new Hook("late")];
  const { memory, ended, run, look } = scene(early, late);
  run(early);
  look();
  early.startNs = undefined;
  memory.residentBytes += 500;
  run(late);
  look();
  look();
  expect(ended).toEqual([]);
});

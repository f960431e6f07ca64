// ArenaSpace hands out disjoint, aligned ranges and merges what comes back; InputRegions grants in order and never starves.

import { describe, expect, test } from "bun:test";
import { ArenaSpace } from "./arena.ts";
import { InputRegions } from "./input-regions.ts";

describe("ArenaSpace", () => {
  test("fills gaps first fit and merges neighbours", () => {
    const space = new ArenaSpace(2048);
    const [a, b, c] = [space.allocate(1), space.allocate(512), space.allocate(1000)];
    expect([a, b, c]).toEqual([0, 256, 768]);
    expect(space.allocate(512)).toBeUndefined();
    space.free(b!, 512);
    expect(space.allocate(256)).toBe(256);
    space.free(a!, 1);
    space.free(c!, 1000);
    space.free(256, 256);
    expect(space.allocate(2048)).toBe(0);
    expect(space.allocate(0)).toBe(0);
  });

  test("keeps ranges disjoint over a random sequence", () => {
    const space = new ArenaSpace(1 << 20);
    const held: { offset: number; byteLength: number }[] = [];
    let seed = 12345;
    const random = (below: number) => {
      seed = (seed * 1103515245 + 12345) % 2 ** 31;
      return seed % below;
    };
    for (let step = 0; step < 5000; step++) {
      const byteLength = 1 + random(60_000);
      const offset = random(3) > 0 ? space.allocate(byteLength) : undefined;
      if (offset !== undefined) {
        const end = offset + byteLength;
        for (const other of held) expect(end <= other.offset || other.offset + other.byteLength <= offset).toBe(true);
        held.push({ offset, byteLength });
      } else if (held.length > 0) {
        const [freed] = held.splice(random(held.length), 1);
        space.free(freed!.offset, freed!.byteLength);
      }
    }
    for (const { offset, byteLength } of held) space.free(offset, byteLength);
    expect(space.freeBytes).toBe(1 << 20);
  });

  test("asserts that nothing is freed twice", () => {
    const space = new ArenaSpace(1024);
    const offset = space.allocate(256)!;
    space.free(offset, 256);
    expect(() => space.free(offset, 256)).toThrow("freed once");
  });
});

describe("InputRegions", () => {
  test("grants in order, waits for room, and refuses what no end of a run could make room for", () => {
    const regions = new InputRegions(new ArenaSpace(1024));
    const events: string[] = [];
    const lease = (name: string, byteLength: number) =>
      regions.lease(
        byteLength,
        (offset) => events.push(`${name}@${offset}`),
        ({ code }) => events.push(`${name} ${code}`),
      );
    lease("a", 768);
    lease("b", 512);
    lease("c", 1);
    expect(events).toEqual(["a@0"]);
    regions.release(0, 768);
    expect(events).toEqual(["a@0", "b@0", "c@512"]);
    lease("d", 4096);
    regions.release(0, 512);
    expect(events).toHaveLength(3);
    regions.release(512, 1);
    expect(events[3]).toBe("d RESOURCE_EXHAUSTED");
  });
});

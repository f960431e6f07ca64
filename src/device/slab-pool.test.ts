// Slabs lie as the device wants them; their pool is fair, bounded, and gives idle memory back.

import { describe, expect, test } from "bun:test";
import { NS_PER_S, VirtualClock } from "../base/clock.ts";
import { slabLayout } from "./slab.ts";
import { collectedBlocks, SlabPool, sizeClass } from "./slab-pool.ts";

const layoutOf = (bytes: number) => slabLayout([{ dtype: "u8", shape: [bytes] }], []);

describe("slabLayout", () => {
  test("puts inputs, then outputs, each at a multiple of 256", () => {
    const layout = slabLayout(
      [
        { dtype: "i64", shape: [4, 33] },
        { dtype: "f32", shape: [] },
        { dtype: "f32", shape: [0, 7] },
      ],
      [{ dtype: "bf16", shape: [4, 3] }],
    );
    expect(layout.inputs.map(({ offset, byteLength }) => [offset, byteLength])).toEqual([
      [0, 1056],
      [1280, 4],
      [1536, 0],
    ]);
    expect(layout.outputs.map(({ offset, byteLength }) => [offset, byteLength])).toEqual([[1536, 24]]);
    expect([layout.inputByteLength, layout.byteLength]).toEqual([1536, 1792]);
  });

  test("refuses what has no byte count", () => {
    expect(() => slabLayout([{ dtype: "bytes", shape: [2] }], [])).toThrow("bytes[2]");
    expect(() => slabLayout([{ dtype: "f64", shape: [2 ** 52, 2] }], [])).toThrow("f64");
  });
});

test("size classes hold their bytes and waste at most a fifth", () => {
  for (let bytes = 1; bytes < 2 ** 31; bytes = Math.ceil(bytes * 1.37)) {
    const size = sizeClass(bytes);
    expect(size % 4096).toBe(0);
    expect(size).toBeGreaterThanOrEqual(bytes);
    if (bytes > 16384) expect(size).toBeLessThanOrEqual(bytes * 1.25);
  }
});

describe("SlabPool", () => {
  test("leases first come first served within its bound", async () => {
    using pool = new SlabPool(collectedBlocks, 16384, new VirtualClock());
    const first = await pool.lease(layoutOf(8192));
    const order: string[] = [];
    const large = pool.lease(layoutOf(16000)).then((slab) => {
      order.push("large");
      return slab;
    });
    const small = pool.lease(layoutOf(100)).then((slab) => {
      order.push("small");
      return slab;
    });
    expect(pool.usage).toEqual({ leased: 1, waiting: 2, heldBytes: 8192 });
    first.release();
    (await large).release();
    (await small).release();
    expect(order).toEqual(["large", "small"]);
    expect(pool.usage.leased).toBe(0);
  });

  test("returns the memory after the last of several references", async () => {
    using pool = new SlabPool(collectedBlocks, 4096, new VirtualClock());
    const slab = await pool.lease(layoutOf(8));
    slab.retain();
    const next = pool.lease(layoutOf(8));
    slab.release();
    expect(slab.inputs[0]!.byteLength).toBe(8);
    slab.release();
    const reused = await next;
    expect(() => slab.inputs).toThrow("last release");
    expect(() => slab.release()).toThrow("more often");
    reused.release();
  });

  test("refuses at once what can never fit, and waiters when it is disposed", async () => {
    const pool = new SlabPool(collectedBlocks, 8192, new VirtualClock());
    expect(pool.lease(layoutOf(8193))).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    const held = await pool.lease(layoutOf(8192));
    const waiting = pool.lease(layoutOf(1));
    pool[Symbol.dispose]();
    expect(waiting).rejects.toMatchObject({ code: "UNAVAILABLE" });
    held.release();
    expect(pool.usage).toEqual({ leased: 0, waiting: 0, heldBytes: 0 });
  });

  test("gives idle memory back to the system, and keeps what is in use", async () => {
    const clock = new VirtualClock();
    using pool = new SlabPool(collectedBlocks, 1 << 20, clock);
    const [kept, idle] = [await pool.lease(layoutOf(4096)), await pool.lease(layoutOf(8192))];
    idle.release();
    clock.advance(25 * NS_PER_S);
    expect(pool.usage).toEqual({ leased: 1, waiting: 0, heldBytes: 4096 });
    kept.release();
  });
});

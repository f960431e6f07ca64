// What every Device must do, whatever it is made of: one suite, run by device.test.ts against each implementation.
//
// An implementation brings its own way to write modules (StableHLO, or JSON for the fake) and weights, and says how many
// native handles are alive where it can count them.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Device, Executable, Image, ModuleSource, Slab } from "../../src/device/device.ts";
import { slabLayout } from "../../src/device/slab.ts";
import { DTYPE_NAMES, type Dtype } from "../../src/tensor/dtype.ts";
import type { Shape } from "../../src/tensor/shape.ts";
import type { TensorType } from "../../src/tensor/signature.ts";

/** The programs of the suite. */
export interface TestModules {
  /** One parameter, returned. */
  identity(type: TensorType): ModuleSource;
  /** i32 a, b -> a + b, a - b. */
  sumDifference(shape: Shape): ModuleSource;
  /** f32 x, weight w -> x + w, both of `shape`. */
  addWeight(shape: Shape): ModuleSource;
  /** f32 scalar -> f32 scalar, and it always fails for want of memory. */
  outOfMemory(): ModuleSource;
  broken(): ModuleSource;
}

export interface TestDevice extends AsyncDisposable {
  readonly device: Device;
  readonly modules: TestModules;
  image(weights: readonly (TensorType & { name: string; bytes: Uint8Array })[]): Promise<Image>;
  /** Native handles alive on the test's thread; undefined where other threads hold them. */
  handles(): Record<string, number> | undefined;
  /** Codes that running out of memory may have: old plugins word it INTERNAL. */
  readonly outOfMemoryCodes: readonly string[];
}

const SHAPES: readonly Shape[] = [[], [1], [16], [3, 5], [2, 3, 4], [0, 4]];

const asFloats = (bytes: Uint8Array) => new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
const asInts = (bytes: Uint8Array) => new Int32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);

/** A slab for the executable; `weightCount` of its parameters are weights. */
function leaseFor(device: Device, executable: Executable, weightCount = 0): Promise<Slab> {
  const inputs = executable.parameters.slice(0, executable.parameters.length - weightCount);
  return device.leaseSlab(slabLayout(inputs, executable.results));
}

/** Bytes that are legal for the dtype: booleans are 0 and 1. */
function pattern(dtype: Dtype, byteLength: number, seed: number): Uint8Array {
  const modulus = dtype === "bool" ? 2 : 100;
  return Uint8Array.from({ length: byteLength }, (_, index) => (index * 7 + seed) % modulus);
}

/** What goes in comes out as the program says. */
function computing(it: () => TestDevice): void {
  test("says what it is", () => {
    const { device } = it();
    expect(device.info.platform).not.toBe("");
    expect(device.info.kind).not.toBe("");
    expect(["buffers", "arena"]).toContain(device.info.memory);
  });

  for (const dtype of DTYPE_NAMES.filter((dtype) => dtype !== "bytes")) {
    test(`returns ${dtype} tensors of every rank unchanged`, async () => {
      const { device, modules } = it();
      for (const [seed, shape] of SHAPES.entries()) {
        using executable = await device.loadExecutable(modules.identity({ dtype, shape }));
        expect(executable.parameters).toEqual([{ dtype, shape }]);
        expect(executable.results).toEqual([{ dtype, shape }]);
        const slab = await leaseFor(device, executable);
        const sent = pattern(dtype, slab.inputs[0]!.byteLength, seed);
        slab.inputs[0]!.set(sent);
        slab.outputs[0]!.fill(0xff);
        const timing = await device.run(executable, undefined, slab);
        expect(slab.outputs[0]).toEqual(sent);
        expect(Object.values(timing).every((ns) => ns >= 0)).toBe(true);
        slab.release();
      }
    });
  }

  test("computes several results from several inputs", async () => {
    const { device, modules } = it();
    using executable = await device.loadExecutable(modules.sumDifference([4, 16]));
    const slab = await leaseFor(device, executable);
    asInts(slab.inputs[0]!).set(Array.from({ length: 64 }, (_, index) => index));
    asInts(slab.inputs[1]!).fill(1);
    await device.run(executable, undefined, slab);
    expect([...asInts(slab.outputs[0]!)]).toEqual(Array.from({ length: 64 }, (_, index) => index + 1));
    expect([...asInts(slab.outputs[1]!)]).toEqual(Array.from({ length: 64 }, (_, index) => index - 1));
    slab.release();
  });
}

/** Executables and weights. */
function loading(it: () => TestDevice): void {
  test("refuses a broken module, naming it, and goes on", async () => {
    const { device, modules } = it();
    const failure = await device.loadExecutable(modules.broken()).catch((error) => error);
    expect(failure.code).toBe("INVALID_ARGUMENT");
    expect(failure.message).toContain("broken.mlir");
    using executable = await device.loadExecutable(modules.identity({ dtype: "f32", shape: [2] }));
    expect(executable.results).toHaveLength(1);
  });

  test("adds the weights that a run names, after their image is gone", async () => {
    const { device, modules } = it();
    using executable = await device.loadExecutable(modules.addWeight([33]));
    const load = async (value: number) => {
      const bytes = new Uint8Array(new Float32Array(33).fill(value).buffer);
      using image = await it().image([{ name: "w", dtype: "f32", shape: [33], bytes }]);
      expect(image.tensorBytes(0)).toEqual(bytes);
      return device.loadWeights(image);
    };
    using tens = await load(10);
    using hundreds = await load(100);
    for (const [weights, expected] of [
      [tens, 11],
      [hundreds, 101],
      [tens, 11],
    ] as const) {
      const slab = await leaseFor(device, executable, 1);
      asFloats(slab.inputs[0]!).fill(1);
      await device.run(executable, weights, slab);
      expect([...asFloats(slab.outputs[0]!)]).toEqual(new Array(33).fill(expected));
      slab.release();
    }
  });

  test("shares equal executables, and tells different ones apart", async () => {
    const { device, modules } = it();
    const source = modules.identity({ dtype: "f32", shape: [7] });
    const [one, two] = await Promise.all([device.loadExecutable(source), device.loadExecutable(source)]);
    expect(one!.key).toBe(two!.key);
    using other = await device.loadExecutable(modules.identity({ dtype: "f32", shape: [8] }));
    expect(other.key).not.toBe(one!.key);
    one!.storeCost(5000);
    expect(two!.storedCostNs).toBe(5000);
    one![Symbol.dispose]();
    one![Symbol.dispose]();
    const slab = await leaseFor(device, two!);
    await device.run(two!, undefined, slab);
    slab.release();
    two![Symbol.dispose]();
  });
}

/** Several runs at once. */
function running(it: () => TestDevice): void {
  test("runs in the order of the calls, several under way at once, each with its own results", async () => {
    const { device, modules } = it();
    using small = await device.loadExecutable(modules.identity({ dtype: "i32", shape: [16] }));
    using large = await device.loadExecutable(modules.identity({ dtype: "i32", shape: [65536] }));
    const order: number[] = [];
    const runs = Array.from({ length: 40 }, async (_, index) => {
      const executable = index % 2 ? small : large;
      const slab = await leaseFor(device, executable);
      asInts(slab.inputs[0]!).fill(index);
      await device.run(executable, undefined, slab, executable === small);
      order.push(index);
      expect(asInts(slab.outputs[0]!).every((value) => value === index)).toBe(true);
      slab.release();
    });
    await Promise.all(runs);
    expect(order).toEqual(runs.map((_, index) => index));
  });

  test("runs what is quick in order too, whether or not the device is idle", async () => {
    const { device, modules } = it();
    using executable = await device.loadExecutable(modules.identity({ dtype: "i32", shape: [16] }));
    const order: number[] = [];
    const run = async (index: number, quick: boolean) => {
      const slab = await leaseFor(device, executable);
      asInts(slab.inputs[0]!).fill(index);
      await device.run(executable, undefined, slab, quick);
      order.push(index);
      expect(asInts(slab.outputs[0]!).every((value) => value === index)).toBe(true);
      slab.release();
    };
    for (let index = 0; index < 10; index++) await run(index, true);
    await Promise.all(Array.from({ length: 10 }, (_, index) => run(10 + index, index % 3 !== 1)));
    expect(order).toEqual(Array.from({ length: 20 }, (_, index) => index));
  });

  test("lets a run that is out of memory fail alone", async () => {
    const { device, modules } = it();
    using hungry = await device.loadExecutable(modules.outOfMemory());
    using fine = await device.loadExecutable(modules.identity({ dtype: "f32", shape: [] }));
    const [first, failing, last] = await Promise.all([fine, hungry, fine].map((each) => leaseFor(device, each)));
    asFloats(last!.inputs[0]!)[0] = 7;
    const results = await Promise.allSettled([
      device.run(fine, undefined, first!),
      device.run(hungry, undefined, failing!),
      device.run(fine, undefined, last!),
    ]);
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(it().outOfMemoryCodes).toContain((results[1] as PromiseRejectedResult).reason.code);
    expect(asFloats(last!.outputs[0]!)[0]).toBe(7);
    for (const slab of [first, failing, last]) slab!.release();
  });
}

/** Who holds what, and for how long. */
function owning(it: () => TestDevice): void {
  test("keeps executable, weights and slab alive for a run that still uses them", async () => {
    const { device, modules } = it();
    const executable = await device.loadExecutable(modules.addWeight([1024]));
    const bytes = new Uint8Array(new Float32Array(1024).fill(2).buffer);
    using image = await it().image([{ name: "w", dtype: "f32", shape: [1024], bytes }]);
    const weights = await device.loadWeights(image);
    const slab = await leaseFor(device, executable, 1);
    asFloats(slab.inputs[0]!).fill(1);
    const run = device.run(executable, weights, slab);
    executable[Symbol.dispose]();
    weights[Symbol.dispose]();
    await run;
    expect(asFloats(slab.outputs[0]!).every((value) => value === 3)).toBe(true);
    slab.release();
  });

  test("refuses a slab that can never fit", async () => {
    const { device } = it();
    const layout = slabLayout([{ dtype: "u8", shape: [2 ** 40] }], []);
    expect(await device.leaseSlab(layout).catch((error) => error.code)).toBe("RESOURCE_EXHAUSTED");
  });

  test("ends cycles of loading and running with the handles that it began with", async () => {
    const { device, modules } = it();
    const cycle = async () => {
      using executable = await device.loadExecutable(modules.addWeight([64]));
      const bytes = new Uint8Array(256);
      using image = await it().image([{ name: "w", dtype: "f32", shape: [64], bytes }]);
      using weights = await device.loadWeights(image);
      const slab = await leaseFor(device, executable, 1);
      await device.run(executable, weights, slab);
      slab.release();
    };
    await cycle();
    const before = it().handles();
    for (let count = 0; count < 20; count++) await cycle();
    expect(it().handles()).toEqual(before!);
  });
}

/** Closing is the end of a device, so that this one opens a device of its own. */
function closing(name: string, open: () => Promise<TestDevice>): void {
  test(`${name}: closing waits for the runs under way, and refuses what comes later`, async () => {
    const opened = await open();
    const { device, modules } = opened;
    const executable = await device.loadExecutable(modules.identity({ dtype: "i32", shape: [65536] }));
    const slab = await leaseFor(device, executable);
    asInts(slab.inputs[0]!).fill(5);
    const runs = Promise.all(Array.from({ length: 4 }, () => device.run(executable, undefined, slab)));
    const closed = opened[Symbol.asyncDispose]();
    const refused = device.run(executable, undefined, slab);
    expect((await Promise.allSettled([refused]))[0]).toMatchObject({
      status: "rejected",
      reason: { code: "UNAVAILABLE" },
    });
    const settled = await Promise.allSettled([runs]);
    await closed;
    // A device may cut short what has not begun, but never leave it unsettled.
    if (settled[0]!.status === "fulfilled") expect(asInts(slab.outputs[0]!).every((value) => value === 5)).toBe(true);
    slab.release();
    executable[Symbol.dispose]();
  });
}

export function deviceContract(name: string, open: () => Promise<TestDevice>): void {
  describe(name, () => {
    let opened: TestDevice;
    beforeAll(async () => {
      opened = await open();
    });
    afterAll(() => opened[Symbol.asyncDispose]());
    computing(() => opened);
    loading(() => opened);
    running(() => opened);
    owning(() => opened);
  });
  closing(name, open);
}

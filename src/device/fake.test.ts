// The fake device keeps its promises about time: a link with a bandwidth, one execution at a time, failures when told to.

import { describe, expect, test } from "bun:test";
import { NS_PER_MS, VirtualClock } from "../base/clock.ts";
import { ServerError } from "../base/errors.ts";
import type { Executable } from "./device.ts";
import { FakeDevice, type FakeOptions, type FakeScript } from "./fake.ts";
import { fakeImage } from "./fake-image.ts";
import { fakeModule } from "./fake-module.ts";
import { slabLayout } from "./slab.ts";

const MEGABYTE = 1_000_000;

function device(options: Partial<FakeOptions> = {}): { clock: VirtualClock; device: FakeDevice } {
  const clock = new VirtualClock();
  const made = new FakeDevice({ clock, bandwidth: 1e9, compileNs: 5e6, executeNs: () => 3e6, ...options });
  return { clock, device: made };
}

/** Turns the clock until the promise settles; virtual time needs no waiting. */
async function settle<T>(clock: VirtualClock, promise: Promise<T>): Promise<T> {
  let settled = false;
  promise.then(
    () => (settled = true),
    () => (settled = true),
  );
  for (;;) {
    for (let turn = 0; turn < 10; turn++) await Promise.resolve();
    if (settled || !clock.step()) return promise;
  }
}

const identity = (bytes: number, costNs?: number) => {
  const type = { dtype: "u8", shape: [bytes] } as const;
  return fakeModule("identity", { parameters: [type], results: [type], operation: "identity", costNs });
};

const weights = (byteLength: number) =>
  fakeImage([{ name: "w", dtype: "u8", shape: [byteLength], bytes: new Uint8Array(byteLength) }]);

const lease = (from: FakeDevice, executable: Executable) =>
  from.leaseSlab(slabLayout(executable.parameters, executable.results));

const failing = (script: FakeScript) => device({ script });

describe("time", () => {
  test("compiling, loading, uploading, executing and downloading take what they should", async () => {
    const { clock, device: fake } = device();
    const executable = await settle(clock, fake.loadExecutable(identity(MEGABYTE)));
    expect(clock.nowNs()).toBe(5 * NS_PER_MS);
    await settle(clock, fake.loadWeights(weights(2 * MEGABYTE)));
    expect(clock.nowNs()).toBeCloseTo(7 * NS_PER_MS, -4);
    const slab = await lease(fake, executable);
    const startNs = clock.nowNs();
    const timing = await settle(clock, fake.run(executable, undefined, slab));
    expect(timing.executeNs).toBe(3 * NS_PER_MS);
    for (const ns of [timing.uploadNs, timing.downloadNs]) expect(ns).toBeCloseTo(NS_PER_MS, -4);
    expect(clock.nowNs() - startNs).toBeCloseTo(5 * NS_PER_MS, -4);
    slab.release();
  });

  test("the next run's upload overlaps the running execution", async () => {
    const { clock, device: fake } = device();
    const executable = await settle(clock, fake.loadExecutable(identity(MEGABYTE)));
    const slabs = [await lease(fake, executable), await lease(fake, executable)];
    const startNs = clock.nowNs();
    await settle(clock, Promise.all(slabs.map((slab) => fake.run(executable, undefined, slab))));
    // 1 up, 3 execute, 3 execute, 1 down: the second upload and the first download are hidden.
    expect(clock.nowNs() - startNs).toBeCloseTo(8 * NS_PER_MS, -4);
    for (const slab of slabs) slab.release();
  });
});

describe("memory", () => {
  test("refuses weights and runs beyond the limit, and takes them once there is room", async () => {
    const { clock, device: fake } = device({ memoryBytes: 4096 });
    const executable = await settle(clock, fake.loadExecutable(identity(512)));
    using first = await settle(clock, fake.loadWeights(weights(2560)));
    expect(await settle(clock, fake.loadWeights(weights(2560))).catch((error) => error.code)).toBe(
      "RESOURCE_EXHAUSTED",
    );
    const slabs = await Promise.all([lease(fake, executable), lease(fake, executable)]);
    const runs = Promise.allSettled(slabs.map((slab) => fake.run(executable, undefined, slab)));
    const results = await settle(clock, runs);
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
    first[Symbol.dispose]();
    expect(fake.memoryStatistics()).toMatchObject({ inUse: 0, limit: 4096 });
    await settle(clock, fake.loadWeights(weights(2560)));
    for (const slab of slabs) slab.release();
  });
});

describe("scripts", () => {
  test("fail one compile, load or run, or make it slow", async () => {
    const error = new ServerError("INTERNAL", "as told");
    const { clock, device: fake } = failing({
      onCompile: (_, index) => (index === 0 ? { error } : undefined),
      onLoad: (_, index) => (index === 0 ? { error, extraNs: 1e9 } : undefined),
      onExecute: (_, index) => (index === 1 ? { error } : index === 2 ? { extraNs: 50e6 } : undefined),
    });
    expect(await settle(clock, fake.loadExecutable(identity(8))).catch((thrown) => thrown)).toBe(error);
    const executable = await settle(clock, fake.loadExecutable(identity(8)));
    const beforeNs = clock.nowNs();
    expect(await settle(clock, fake.loadWeights(weights(8))).catch((thrown) => thrown)).toBe(error);
    expect(clock.nowNs() - beforeNs).toBeGreaterThan(1e9);
    expect(fake.memoryStatistics().inUse).toBe(0);
    const slab = await lease(fake, executable);
    const outcomes: unknown[] = [];
    for (let run = 0; run < 3; run++) {
      const timing = settle(clock, fake.run(executable, undefined, slab));
      outcomes.push(await timing.then(({ executeNs }) => executeNs).catch((thrown) => thrown));
    }
    expect(outcomes).toEqual([3e6, error, 53e6]);
    slab.release();
  });

  test("lose the device: everything fails from then on, and onFault is called once", async () => {
    const { clock, device: fake } = failing({ onExecute: (_, index) => (index === 0 ? { sticky: true } : undefined) });
    const faults: string[] = [];
    fake.onFault = ({ message }) => faults.push(message);
    const executable = await settle(clock, fake.loadExecutable(identity(8)));
    const slab = await lease(fake, executable);
    const runs = Promise.allSettled([fake.run(executable, undefined, slab), fake.run(executable, undefined, slab)]);
    expect((await settle(clock, runs)).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(await fake.loadExecutable(identity(8)).catch(({ message }) => message)).toBe("the device is lost");
    expect(faults).toEqual(["the device is lost"]);
    slab.release();
  });
});

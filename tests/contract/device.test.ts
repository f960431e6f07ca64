// The Device contract against the fake, and against PJRT with plain buffers and with the arena of views.

import { test } from "bun:test";
import { systemClock } from "../../src/base/clock.ts";
import { FakeDevice } from "../../src/device/fake.ts";
import { fakeImage } from "../../src/device/fake-image.ts";
import { TEST_PLUGIN_NAMES, testPlugin } from "../support/plugins.ts";
import { deviceContract, type TestDevice } from "./device.ts";
import { fakeModules } from "./device-modules.ts";
import { pjrtDevice } from "./device-pjrt.ts";

deviceContract("fake", async (): Promise<TestDevice> => {
  const device = new FakeDevice({
    clock: systemClock,
    bandwidth: 1e9,
    compileNs: 0,
    executeNs: () => 1000,
    memoryBytes: 2 ** 40,
  });
  return {
    device,
    modules: fakeModules,
    image: async (weights) => fakeImage(weights),
    handles: () => undefined,
    outOfMemoryCodes: ["RESOURCE_EXHAUSTED"],
    [Symbol.asyncDispose]: () => device[Symbol.asyncDispose](),
  };
});

for (const name of TEST_PLUGIN_NAMES) {
  const { path: plugin, skip } = await testPlugin(name);
  if (plugin === undefined) {
    test.skip(`pjrt ${name}: ${skip}`, () => {});
    continue;
  }
  // 0.81 wraps what its allocator says in an error of its own.
  const outOfMemoryCodes = name === "xla-cpu-pjrt" ? ["INTERNAL"] : ["RESOURCE_EXHAUSTED"];
  for (const memory of ["buffers", "arena"] as const) {
    deviceContract(
      `pjrt ${name}, ${memory}, inline`,
      pjrtDevice({ plugin, memory, threads: "inline" }, outOfMemoryCodes),
    );
    if (name === "lammps") deviceContract(`pjrt ${name}, ${memory}, threads`, pjrtDevice({ plugin, memory }));
  }
}

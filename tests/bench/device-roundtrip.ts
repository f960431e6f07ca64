// The price of the device layer: a round trip of a 16-float identity through a Device, against bun:ffi calls by hand.
//
// Inline, the device runs on the calling thread, as the hand-written calls do; with threads, three messages come on top,
// which is what a worker pays so that its main thread never waits. The target is 1.5 times, inline.
// Run it: bun tests/bench/device-roundtrip.ts [plugin]

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PjrtClient } from "../../ffi/pjrt/client.ts";
import { encodeCompileOptions } from "../../ffi/pjrt/compile-options.ts";
import { PjrtExecutable } from "../../ffi/pjrt/executable.ts";
import { loadPlugin } from "../../ffi/pjrt/plugin.ts";
import { createLogger } from "../../src/base/log.ts";
import type { Device } from "../../src/device/device.ts";
import { type DeviceOptions, openDevice } from "../../src/device/open-device.ts";
import { slabLayout } from "../../src/device/slab.ts";
import { TEST_PLUGIN_NAMES, type TestPluginName, testPlugin } from "../support/plugins.ts";
import {
  type Contestant,
  formatRoundTrips,
  handWritten,
  IDENTITY_MODULE,
  measureRoundTrips,
  ownedObjects,
} from "./pjrt-roundtrip.ts";

/** A round trip through `device`: input into a slab, run, output out of it. */
async function throughDevice(name: string, device: Device): Promise<Contestant> {
  const module = { label: "identity.mlir", bytes: IDENTITY_MODULE, compileOptions: {} };
  const executable = await device.loadExecutable(module);
  const slab = await device.leaseSlab(slabLayout(executable.parameters, executable.results));
  const { buffer, byteOffset } = slab.outputs[0]!;
  const from = new Float32Array(buffer, byteOffset, 16);
  const to = new Float32Array(slab.inputs[0]!.buffer, slab.inputs[0]!.byteOffset, 16);
  return {
    name,
    async run(input, output) {
      to.set(input);
      await device.run(executable, undefined, slab);
      output.set(from);
    },
  };
}

async function main(name: TestPluginName): Promise<void> {
  const plugin = await testPlugin(name);
  if (plugin.path === undefined) return console.log(`skipped: ${plugin.skip}`);
  const cacheDirectory = mkdtempSync(join(tmpdir(), "xlaserver-bench-"));
  const open = (options: Partial<DeviceOptions>) =>
    openDevice({
      backend: "cpu",
      ordinal: 0,
      plugin: plugin.path,
      cacheDirectory,
      slabBytes: 1 << 20,
      memoryFraction: 0.9,
      preallocate: true,
      xlaOptions: {},
      compile: "inline",
      log: createLogger({ level: "warn", format: "auto" }),
      ...options,
    });
  try {
    using client = PjrtClient.create(loadPlugin(plugin.path), { cpu_device_count: 1 });
    using executable = PjrtExecutable.compile(client, IDENTITY_MODULE, encodeCompileOptions());
    await using inline = await open({ threads: "inline" });
    await using arena = await open({ threads: "inline", memory: "arena", arenaBytes: 1 << 20 });
    await using threaded = await open({});
    const results = await measureRoundTrips([
      handWritten(client, executable),
      ownedObjects(client, executable),
      await throughDevice("device, inline", inline),
      await throughDevice("inline, arena", arena),
      await throughDevice("device, threads", threaded),
    ]);
    console.log(`round trip of 16 floats, ${name}\n${formatRoundTrips(results)}`);
  } finally {
    rmSync(cacheDirectory, { recursive: true, force: true });
  }
}

if (import.meta.main) await main(TEST_PLUGIN_NAMES.find((name) => name === process.argv[2]) ?? "lammps");

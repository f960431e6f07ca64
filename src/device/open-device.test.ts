// A device opens with one clear line or not at all, compiles once for all its lives, and repairs a damaged cache.

import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nativeVariable, setNativeVariable } from "../../ffi/posix/environment.ts";
import { testPlugin } from "../../tests/support/plugins.ts";
import type { Logger } from "../base/log.ts";
import type { ModuleSource } from "./device.ts";
import { type DeviceOptions, openDevice } from "./open-device.ts";
import { slabLayout } from "./slab.ts";

const plugin = await testPlugin("lammps");
const directory = mkdtempSync(join(tmpdir(), "xlaserver-open-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const lines: string[] = [];
const note = (event: string, fields?: object) => lines.push(`${event} ${JSON.stringify(fields)}`);
const log: Logger = { debug: note, info: note, warn: note, error: note };

const open = (options: Partial<DeviceOptions> = {}) =>
  openDevice({
    backend: "cpu",
    ordinal: 0,
    plugin: plugin.path,
    cacheDirectory: directory,
    slabBytes: 1 << 20,
    memoryFraction: 0.9,
    preallocate: true,
    xlaOptions: {},
    log,
    ...options,
  });

const type = "tensor<4xf32>";
const double: ModuleSource = {
  label: "double.mlir",
  bytes: new TextEncoder().encode(
    `module { func.func public @main(%x: ${type}) -> ${type} { %y = stablehlo.add %x, %x : ${type}\nreturn %y : ${type} } }`,
  ),
  compileOptions: {},
};

/** Opens a device, doubles four numbers, and returns the stored cost and what was logged. */
async function doubleOnce(options: Partial<DeviceOptions> = {}, costNs?: number) {
  lines.length = 0;
  await using device = await open(options);
  using executable = await device.loadExecutable(double);
  const { storedCostNs } = executable;
  const slab = await device.leaseSlab(slabLayout(executable.parameters, executable.results));
  new Float32Array(slab.inputs[0]!.buffer, 0, 4).set([1, 2, 3, 4]);
  await device.run(executable, undefined, slab);
  const output = slab.outputs[0]!;
  expect([...new Float32Array(output.buffer, output.byteOffset, 4)]).toEqual([2, 4, 6, 8]);
  slab.release();
  if (costNs !== undefined) executable.storeCost(costNs);
  return { storedCostNs, logged: [...lines] };
}

const entries = () => readdirSync(join(directory, "executables")).filter((name) => name.endsWith(".executable"));

describe.skipIf(plugin.path === undefined)("openDevice", () => {
  test("compiles in a helper once, and remembers what a run costs", async () => {
    expect(await doubleOnce({}, 7000)).toEqual({ storedCostNs: undefined, logged: [] });
    expect(entries()).toHaveLength(1);
    expect(await doubleOnce()).toEqual({ storedCostNs: 7000, logged: [] });
    expect(entries()).toHaveLength(1);
  });

  test("keeps executables of other options apart", async () => {
    await doubleOnce({ compile: "inline", xlaOptions: { xla_cpu_enable_fast_math: true } });
    expect(entries()).toHaveLength(2);
    expect((await doubleOnce()).storedCostNs).toBe(7000);
  });

  test("compiles anew, with a line in the log, what is damaged on the disk", async () => {
    for (const name of entries()) {
      const path = join(directory, "executables", name);
      const bytes = readFileSync(path);
      bytes[bytes.length - 1]! ^= 1;
      writeFileSync(path, bytes);
    }
    const { logged } = await doubleOnce({ compile: "inline" });
    expect(logged).toHaveLength(1);
    expect(logged[0]).toContain("cached executable unusable");
    expect(logged[0]).toContain("checksum");
    expect((await doubleOnce()).logged).toEqual([]);
  });

  test("compiles anew what PJRT refuses although its checksum is right", async () => {
    const { ExecutableCache } = await import("./executable-cache.ts");
    const cache = await ExecutableCache.open(directory, 1e9, 0);
    const keys = entries().map((name) => name.slice(0, -".executable".length));
    for (const key of keys) {
      const { entry } = cache.read(key, 0);
      if (entry) await cache.write(key, { ...entry, payload: new Uint8Array(64) });
    }
    const { logged } = await doubleOnce();
    expect(logged).toHaveLength(1);
    expect(logged[0]).toContain("cached executable unusable");
  });

  test("refuses an unknown XLA flag with a status", async () => {
    await using device = await open({ xlaOptions: { xla_no_such_flag: true } });
    const error = await device.loadExecutable(double).catch((thrown) => thrown);
    expect(error.code).toBe("INVALID_ARGUMENT");
    expect(error.message).toContain("xla_no_such_flag");
  });

  test("takes XLA_FLAGS away from the plugin, and says so", async () => {
    setNativeVariable("XLA_FLAGS", "--xla_no_such_flag");
    const { logged } = await doubleOnce();
    expect(logged[0]).toContain("XLA_FLAGS is ignored");
    expect(nativeVariable("XLA_FLAGS")).toBeUndefined();
  });

  test("says in one line what can't be opened", async () => {
    const text = join(directory, "text.so");
    writeFileSync(text, "not a library at all");
    for (const options of [{ plugin: text }, { plugin: join(directory, "none.so") }, { ordinal: 3 }] as const) {
      const error = await open(options).catch((thrown) => thrown);
      expect(error.code).toBe("FAILED_PRECONDITION");
      expect(error.message).toStartWith("no ");
      expect(error.message).not.toContain("\n");
    }
  });
});

// Compiling in helpers: modules reach the cache, a bad one fails alone, and a helper that dies takes one module with it.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { encodeCompileOptions } from "../../ffi/pjrt/compile-options.ts";
import { testPlugin } from "../../tests/support/plugins.ts";
import { systemClock } from "../base/clock.ts";
import { CompilePool } from "./compile-pool.ts";

const plugin = await testPlugin("lammps");
const directory = mkdtempSync(join(tmpdir(), "xlaserver-compile-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const request = (key: string, text: string) => ({
  label: `${key}.mlir`,
  module: new TextEncoder().encode(text),
  options: encodeCompileOptions(),
  key,
});

const program = (size: number) =>
  `module { func.func public @main(%x: tensor<${size}xf32>) -> tensor<${size}xf32> { return %x : tensor<${size}xf32> } }`;

/** Processes that this one has started and that are still about. */
function children(): number[] {
  return readdirSync("/proc/self/task").flatMap((task) => {
    const list = readFileSync(`/proc/self/task/${task}/children`, "utf8").trim();
    return list === "" ? [] : list.split(" ").map(Number);
  });
}

describe.skipIf(plugin.path === undefined)("CompilePool", () => {
  let pool: CompilePool;
  beforeAll(() => {
    const cache = { directory, byteBound: 1e9 };
    const spec = { pluginPath: plugin.path!, createOptions: { cpu_device_count: 1 }, arena: undefined, cache };
    pool = new CompilePool(spec, 1, systemClock);
  });
  afterAll(() => pool[Symbol.dispose]());

  test("compiles into the cache, several modules in one helper", async () => {
    const stored = await Promise.all([1, 2, 3].map((size) => pool.compile(request(`good${size}`, program(size)))));
    expect(stored).toEqual([{}, {}, {}]);
    expect(children()).toHaveLength(1);
    const names = [1, 2, 3].map((size) => `good${size}.executable`);
    expect(readdirSync(join(directory, "executables")).sort()).toEqual(names);
  });

  test("reports what the compiler says of a bad module, and goes on", async () => {
    const bad = pool.compile(request("bad", "module { nonsense }"));
    const good = pool.compile(request("after", program(4)));
    const error = await bad.catch((thrown) => thrown);
    expect(error.code).toBe("INVALID_ARGUMENT");
    expect(error.message).toContain("bad.mlir");
    expect(await good).toEqual({});
  });

  test("fails the module of a helper that dies, with the reason, and compiles the others", async () => {
    const victim = pool.compile(request("victim", program(5)));
    const other = pool.compile(request("other", program(6)));
    for (const child of children()) process.kill(child, "SIGKILL");
    const error = await victim.catch((thrown) => thrown);
    expect(error.code).toBe("INTERNAL");
    expect(error.message).toContain("victim.mlir: the compiler process died: signal SIGKILL");
    expect(await other).toEqual({});
  });

  test("refuses what waits when it is disposed, and what comes later", async () => {
    const closing = pool.compile(request("closing", program(7)));
    pool[Symbol.dispose]();
    expect(await closing.catch((thrown) => thrown.code)).toBe("UNAVAILABLE");
    const late = pool.compile(request("late", program(8)));
    expect(await late.catch((thrown) => thrown.code)).toBe("UNAVAILABLE");
  });
});

// The executable cache gives back what was stored, whole and under its own key, or says why not; it stays within its bound.

import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type CachedExecutable, ExecutableCache } from "./executable-cache.ts";
import { type CompileEnvironment, executableKey } from "./executable-key.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "xlaserver-cache-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const KEY = "a".repeat(64);
const OTHER = "b".repeat(64);

function entry(byteLength: number, fill = 7): CachedExecutable {
  return {
    description: {
      parameters: [{ dtype: "f32", shape: [2, 3] }],
      results: [{ dtype: "i64", shape: [] }],
      memory: { argumentBytes: 24, outputBytes: 8, temporaryBytes: 0, generatedCodeBytes: 100 },
      flops: 12,
    },
    launch: { outputCount: 1, donatable: [1] },
    payload: new Uint8Array(byteLength).fill(fill),
  };
}

const open = (byteBound = 1e6) => ExecutableCache.open(directory, byteBound, 0);
const pathOf = (key: string) => join(directory, "executables", `${key}.executable`);
const keys = () => readdirSync(join(directory, "executables")).sort();

describe("ExecutableCache", () => {
  test("gives back what was stored, also to another process", async () => {
    await (await open()).write(KEY, entry(1000));
    const { entry: read } = (await open()).read(KEY, 0);
    expect(read?.description).toEqual(entry(1000).description);
    expect(read?.launch).toEqual(entry(1000).launch);
    expect(new Uint8Array(read!.payload)).toEqual(new Uint8Array(1000).fill(7));
    expect((await open()).read(OTHER, 0)).toEqual({});
  });

  test.each([
    ["a truncated entry", (path: string) => truncateSync(path, 700), "checksum"],
    ["an empty entry", (path: string) => truncateSync(path, 0), "not a cached executable"],
    ["an altered payload", (path: string) => flip(path, -1), "checksum"],
    ["an altered description", (path: string) => flip(path, 120), "checksum"],
    ["something else", (path: string) => writeFileSync(path, "hello"), "not a cached executable"],
    ["an entry of a later format", (path: string) => rename(path, "executable 2", "executable 9"), "not a cached"],
  ])("refuses %s", async (_, damage, reason) => {
    const cache = await open();
    await cache.write(KEY, entry(1000));
    damage(pathOf(KEY));
    const read = cache.read(KEY, 0);
    expect(read.entry).toBeUndefined();
    expect(read.reason).toContain(reason);
  });

  test("refuses an entry under a key that is not its own", async () => {
    const cache = await open();
    await cache.write(KEY, entry(10));
    writeFileSync(pathOf(OTHER), readFileSync(pathOf(KEY)));
    expect(cache.read(OTHER, 0).reason).toBe("it belongs to another key");
  });

  test("stays whole under writers at once", async () => {
    const caches = await Promise.all(Array.from({ length: 8 }, () => open()));
    await Promise.all(caches.map((cache) => cache.write(KEY, entry(200_000))));
    expect(keys()).toEqual([`${KEY}.executable`]);
    expect(caches[0]!.read(KEY, 0).entry?.payload.byteLength).toBe(200_000);
  });

  test("drops the least recently used beyond its bound, with its cost", async () => {
    const cache = await open(35_000);
    for (const [index, key] of ["1", "2", "3"].entries()) {
      await cache.write(key, entry(10_000));
      cache.read(key, 1e12 + index * 1000);
      await cache.writeCost(key, 100);
    }
    cache.read("1", 1e12 + 9000);
    await cache.write("4", entry(10_000));
    expect(keys()).toEqual(["1.cost", "1.executable", "3.cost", "3.executable", "4.executable"]);
  });

  test("keeps an entry that is larger than the bound: it is in use", async () => {
    const cache = await open(100);
    await cache.write(KEY, entry(5000));
    expect(cache.read(KEY, 0).entry).toBeDefined();
  });

  test("keeps a cost beside its entry only, and ignores nonsense", async () => {
    const cache = await open();
    await cache.writeCost(KEY, 5);
    expect(cache.readCost(KEY)).toBeUndefined();
    await cache.write(KEY, entry(1));
    await cache.writeCost(KEY, 1234.6);
    expect(cache.readCost(KEY)).toBe(1235);
    writeFileSync(join(directory, "executables", `${KEY}.cost`), "soon");
    expect(cache.readCost(KEY)).toBeUndefined();
  });

  test("clears away what a killed writer left", async () => {
    await open();
    const left = join(directory, "executables", ".tmp-x.executable-1-2");
    writeFileSync(left, "half");
    await ExecutableCache.open(directory, 1, Date.now() + 24 * 3600_000);
    expect(keys()).toEqual([]);
  });
});

test("a key changes with everything that decides what is compiled", async () => {
  const environment: CompileEnvironment = {
    pluginSha256: "p",
    clientOptions: { cpu_device_count: 1 },
    platform: "cpu",
    platformVersion: "1",
    deviceKind: "cpu",
    deviceAttributes: {},
    cpuFlags: "avx2",
    cpuThreads: "2",
  };
  const module = new Uint8Array([1]);
  const options = new Uint8Array([2]);
  const base = await executableKey(environment, module, options);
  expect(await executableKey({ ...environment }, module.slice(), options.slice())).toBe(base);
  const others = [
    executableKey(environment, new Uint8Array([9]), options),
    executableKey(environment, module, new Uint8Array([9])),
    ...Object.keys(environment).map((field) => executableKey({ ...environment, [field]: "x" }, module, options)),
  ];
  expect(new Set([base, ...(await Promise.all(others))]).size).toBe(others.length + 1);
});

function flip(path: string, at: number): void {
  const bytes = readFileSync(path);
  const index = at < 0 ? bytes.length + at : at;
  bytes[index]! ^= 1;
  writeFileSync(path, bytes);
}

function rename(path: string, from: string, to: string): void {
  writeFileSync(path, readFileSync(path, "latin1").replace(from, to), "latin1");
}

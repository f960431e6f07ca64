// Native memory and the environment that C sees, against the running kernel.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { closeSync, openSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bytesAt, liveHandles } from "../memory.ts";
import { nativeVariable, removeNativeVariable, setNativeVariable } from "./environment.ts";
import { NativeMemory } from "./native-memory.ts";

const BAD_DESCRIPTOR = 9999;
const MORE_THAN_THERE_IS = 2 ** 50;

let folder: string;
let path: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "posix-"));
  path = join(folder, "file");
  await Bun.write(path, "0123456789");
});
afterAll(() => rm(folder, { recursive: true }));

describe("native memory", () => {
  test("heap blocks are aligned, pages zeroed, both counted until freed", () => {
    {
      using block = NativeMemory.allocate(100, 256);
      expect(block.address % 256).toBe(0);
      block.bytes.fill(3);
      expect(bytesAt(block.address, 100)[99]).toBe(3);
      using pages = NativeMemory.map(10_000);
      expect(pages.bytes.every((byte) => byte === 0)).toBe(true);
      pages.advise("hugePage");
      expect(liveHandles()).toMatchObject({ "heap block": 1, mapping: 1 });
    }
    expect(liveHandles()).toEqual({});
  });

  test("a freed block refuses its address, and freeing twice is nothing", () => {
    const block = NativeMemory.allocate(8, 8);
    block[Symbol.dispose]();
    block[Symbol.dispose]();
    expect(() => block.address).toThrow(/used after it was freed/);
  });

  test("a mapped file outlives its descriptor, a shared one writes through", async () => {
    const descriptor = openSync(path, "r+");
    using shared = NativeMemory.mapShared(descriptor, 10);
    using file = NativeMemory.mapFile(descriptor, 10);
    closeSync(descriptor);
    shared.bytes[0] = 0x58;
    expect(new TextDecoder().decode(file.bytes)).toBe("X123456789");
    expect(await Bun.file(path).text()).toBe("X123456789");
  });

  test("what can't be had is an error with the system's words", () => {
    const noMemory = expect.objectContaining({ code: "RESOURCE_EXHAUSTED" });
    expect(() => NativeMemory.allocate(MORE_THAN_THERE_IS, 64)).toThrow(noMemory);
    expect(() => NativeMemory.map(MORE_THAN_THERE_IS)).toThrow(noMemory);
    expect(() => NativeMemory.mapFile(BAD_DESCRIPTOR, 10)).toThrow(/descriptor 9999: Bad file descriptor/);
  });
});

test("the environment changes for C, where process.env does not reach", () => {
  process.env.XLASERVER_TEST_ONLY_JS = "1";
  expect(nativeVariable("XLASERVER_TEST_ONLY_JS")).toBeUndefined();
  setNativeVariable("XLASERVER_TEST", "first");
  setNativeVariable("XLASERVER_TEST", "häh");
  expect(nativeVariable("XLASERVER_TEST")).toBe("häh");
  removeNativeVariable("XLASERVER_TEST");
  removeNativeVariable("XLASERVER_TEST");
  expect(nativeVariable("XLASERVER_TEST")).toBeUndefined();
  expect(() => setNativeVariable("A=B", "1")).toThrow(/setting the environment variable A=B: Invalid argument/);
  delete process.env.XLASERVER_TEST_ONLY_JS;
});

// A PJRT device for the Device contract: its options, its weights as files, its handles counted.
//
// Used by device.test.ts with the CPU plugins, and by tests/gpu.

import { expect } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { liveHandles } from "../../ffi/memory.ts";
import { sha256 } from "../../src/base/files.ts";
import type { Logger } from "../../src/base/log.ts";
import { openImage } from "../../src/device/image.ts";
import { type DeviceOptions, openDevice } from "../../src/device/open-device.ts";
import type { WeightArgument } from "../../src/tensor/weights.ts";
import type { TestDevice } from "./device.ts";
import { stablehloModules } from "./device-modules.ts";

const directory = mkdtempSync(join(tmpdir(), "xlaserver-device-"));
process.on("exit", () => rmSync(directory, { recursive: true, force: true }));
let images = 0;

const warnings: string[] = [];
const note = (event: string, fields?: object) => warnings.push(`${event} ${JSON.stringify(fields)}`);
const log: Logger = { debug: () => {}, info: () => {}, warn: note, error: note };

/** Writes weights one after another into a file, as safetensors does behind its header. */
const writeWeights: (cacheDirectory: string) => TestDevice["image"] = (cacheDirectory) => async (weights) => {
  const file = join(directory, `weights-${++images}`);
  let end = 0;
  const list = weights.map(({ name, dtype, shape, bytes }): WeightArgument => {
    const fileOffset = end;
    end += bytes.byteLength;
    return { name, dtype, shape, fileOffset, byteLength: bytes.byteLength, transposed: false };
  });
  writeFileSync(file, Buffer.concat(weights.map(({ bytes }) => bytes)));
  return openImage({ file, arguments: list }, cacheDirectory);
};

/** Opens the device of `options.plugin`, again and again with the same cache; `outOfMemoryCodes` as TestDevice says. */
export function pjrtDevice(
  options: Partial<DeviceOptions> & { readonly plugin: string },
  outOfMemoryCodes: readonly string[] = ["RESOURCE_EXHAUSTED"],
): () => Promise<TestDevice> {
  const cacheDirectory = join(directory, sha256(new TextEncoder().encode(options.plugin)).slice(0, 16));
  return async () => {
    const before = liveHandles();
    const device = await openDevice({
      backend: "cpu",
      ordinal: 0,
      cacheDirectory,
      slabBytes: 64 << 20,
      memoryFraction: 0.9,
      preallocate: true,
      xlaOptions: {},
      compile: "inline",
      arenaBytes: 16 << 20,
      log,
      ...options,
    });
    return {
      device,
      modules: stablehloModules,
      image: writeWeights(cacheDirectory),
      handles: () => (options.threads === "inline" ? liveHandles() : undefined),
      outOfMemoryCodes,
      async [Symbol.asyncDispose]() {
        await device[Symbol.asyncDispose]();
        expect(warnings.splice(0)).toEqual([]);
        for (const noun of ["client", "executable", "buffer", "event", "transfer"]) {
          expect([noun, liveHandles()[noun] ?? 0]).toEqual([noun, before[noun] ?? 0]);
        }
      },
    };
  };
}

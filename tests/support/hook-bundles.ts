// Bundles of nothing but a model.ts, in a temporary directory, and a real pool to load and call them with.
//
// For tests only, whose hooks remove the directory at the end. Used by the tests of hooks/.

import { afterAll, beforeAll, expect } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import { ServerError } from "../../src/base/errors.ts";
import type { Logger } from "../../src/base/log.ts";
import type { CallTensor, ParameterValue } from "../../src/call/call.ts";
import { createHookPool, type HookPool, type HookRequest, type HookSet } from "../../src/hooks/pool.ts";
import { Chunks } from "../../src/tensor/byte-source.ts";
import type { Dtype } from "../../src/tensor/dtype.ts";

const silent = () => {};
const SILENT: Logger = { debug: silent, info: silent, warn: silent, error: silent };

let root: string;
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "xlaserver-hooks-"));
});
afterAll(() => rmSync(root, { recursive: true }));

/** A pool on the machine's clock, silent unless given a log. */
export function pool(options: { threads?: number; memoryBoundBytes?: number; log?: Logger } = {}): HookPool {
  return createHookPool({ threads: 1, memoryBoundBytes: 2 ** 30, clock: systemClock, log: SILENT, ...options });
}

let bundles = 0;
/** Writes a bundle's files and returns its directory. `model.ts` gets the import of our module. */
export function bundle(files: Record<string, string>, directory = join(root, `bundle${++bundles}`)): string {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, name)), { recursive: true });
    const head = name === "model.ts" ? 'import { registerModel, InvalidInput } from "xlaserver";\n' : "";
    writeFileSync(join(directory, name), head + text);
  }
  return directory;
}

let generations = 0;
export function load(owner: HookPool, directory: string, timeLimitMs = 10_000, name = "m"): Promise<HookSet> {
  return owner.load({
    name,
    generation: ++generations,
    directory,
    file: join(directory, "model.ts"),
    timeLimitMs,
  });
}

export function loadText(owner: HookPool, text: string, timeLimitMs?: number, name?: string): Promise<HookSet> {
  return load(owner, bundle({ "model.ts": text }), timeLimitMs, name);
}

export function request(fields: Partial<HookRequest> = {}): HookRequest {
  return { parameters: new Map<string, ParameterValue>(), requestId: "", deadlineMs: undefined, ...fields };
}

export function tensor(name: string, dtype: Dtype, shape: number[], data: ArrayBufferView | Uint8Array): CallTensor {
  const bytes = new Uint8Array(data.buffer as ArrayBuffer, data.byteOffset, data.byteLength);
  return { name, dtype, shape, data: Chunks.of(bytes) };
}

export const x = (...values: number[]) => tensor("x", "f32", [values.length], Float32Array.from(values));
export const floats = (each: CallTensor | undefined) => [...new Float32Array(each!.data.contiguous().slice().buffer)];
/** A model.ts that returns what it gets. */
export const IDENTITY = "registerModel({ preprocess: (inputs) => inputs });";

/** What a promise is rejected with, which must be a ServerError. */
export async function failure(promise: Promise<unknown>): Promise<ServerError> {
  const thrown = await promise.then(
    () => undefined,
    (error) => error,
  );
  expect(thrown).toBeInstanceOf(ServerError);
  return thrown;
}

// The Device contract against the fake, and against PJRT with plain buffers and with the arena of views.

import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { liveHandles } from "../../ffi/memory.ts";
import { systemClock } from "../../src/base/clock.ts";
import type { Logger } from "../../src/base/log.ts";
import type { ModuleSource } from "../../src/device/device.ts";
import { FakeDevice } from "../../src/device/fake.ts";
import { fakeImage } from "../../src/device/fake-image.ts";
import { fakeModule } from "../../src/device/fake-module.ts";
import { openImage } from "../../src/device/image.ts";
import { type DeviceOptions, openDevice } from "../../src/device/open-device.ts";
import type { Dtype } from "../../src/tensor/dtype.ts";
import type { Shape } from "../../src/tensor/shape.ts";
import type { WeightArgument } from "../../src/tensor/weights.ts";
import { TEST_PLUGIN_NAMES, type TestPluginName, testPlugin } from "../support/plugins.ts";
import { deviceContract, type TestDevice, type TestModules } from "./device.ts";

const fakeModules: TestModules = {
  identity: (type) => fakeModule("identity", { parameters: [type], results: [type], operation: "identity" }),
  sumDifference(shape) {
    const types = [
      { dtype: "i32", shape },
      { dtype: "i32", shape },
    ] as const;
    return fakeModule("sum_difference", { parameters: types, results: types, operation: "sum_difference" });
  },
  addWeight(shape) {
    const type = { dtype: "f32", shape } as const;
    return fakeModule("add", { parameters: [type, type], results: [type], operation: "sum_difference" });
  },
  outOfMemory() {
    const type = { dtype: "f32", shape: [] } as const;
    const temporaryBytes = 2 ** 45;
    return fakeModule("hungry", { parameters: [type], results: [type], operation: "identity", temporaryBytes });
  },
  broken: () => ({ label: "broken.mlir", bytes: new TextEncoder().encode("{"), compileOptions: {} }),
};

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

const MLIR_TYPES: Readonly<Partial<Record<Dtype, string>>> = {
  bool: "i1",
  u8: "ui8",
  u16: "ui16",
  u32: "ui32",
  u64: "ui64",
  f8_e5m2: "f8E5M2",
  f8_e4m3: "f8E4M3FN",
};

function tensor(dtype: Dtype, shape: Shape): string {
  return `tensor<${[...shape, MLIR_TYPES[dtype] ?? dtype].join("x")}>`;
}

function mlir(label: string, signature: string, body: string): ModuleSource {
  const text = `module @test { func.func public @main(${signature} {\n${body}\n} }`;
  return { label, bytes: new TextEncoder().encode(text), compileOptions: {} };
}

// Far more than a machine has, and nothing that the compiler can see through.
const HUNGRY = `tensor<${2 ** 44}xf32>`;

const stablehlo: TestModules = {
  identity({ dtype, shape }) {
    const type = tensor(dtype, shape);
    return mlir("identity.mlir", `%x: ${type}) -> ${type}`, `return %x : ${type}`);
  },
  sumDifference(shape) {
    const type = tensor("i32", shape);
    return mlir(
      "sum_difference.mlir",
      `%a: ${type}, %b: ${type}) -> (${type}, ${type})`,
      `%s = stablehlo.add %a, %b : ${type}
       %d = stablehlo.subtract %a, %b : ${type}
       return %s, %d : ${type}, ${type}`,
    );
  },
  addWeight(shape) {
    const type = tensor("f32", shape);
    const body = `%s = stablehlo.add %x, %w : ${type}\nreturn %s : ${type}`;
    return mlir("add_weight.mlir", `%x: ${type}, %w: ${type}) -> ${type}`, body);
  },
  outOfMemory: () =>
    mlir(
      "hungry.mlir",
      "%x: tensor<f32>) -> tensor<f32>",
      `%wide = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> ${HUNGRY}
       %count = stablehlo.iota dim = 0 : ${HUNGRY}
       %product = stablehlo.multiply %count, %wide : ${HUNGRY}
       %cosine = stablehlo.cosine %product : ${HUNGRY}
       %sorted = "stablehlo.sort"(%cosine) ({
         ^bb0(%a: tensor<f32>, %b: tensor<f32>):
           %less = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
           stablehlo.return %less : tensor<i1>
       }) {dimension = 0 : i64, is_stable = false} : (${HUNGRY}) -> ${HUNGRY}
       %slice = stablehlo.slice %sorted [5:6] : (${HUNGRY}) -> tensor<1xf32>
       %result = stablehlo.reshape %slice : (tensor<1xf32>) -> tensor<f32>
       return %result : tensor<f32>`,
    ),
  broken: () => mlir("broken.mlir", "%x: tensor<2xf32>) -> tensor<3xf32>", "return %x : tensor<3xf32>"),
};

const directory = mkdtempSync(join(tmpdir(), "xlaserver-device-"));
process.on("exit", () => rmSync(directory, { recursive: true, force: true }));
let images = 0;

const warnings: string[] = [];
const note = (event: string, fields?: object) => warnings.push(`${event} ${JSON.stringify(fields)}`);
const log: Logger = { debug: () => {}, info: () => {}, warn: note, error: note };

function openPjrt(name: TestPluginName, plugin: string, options: Partial<DeviceOptions>) {
  return async (): Promise<TestDevice> => {
    const before = liveHandles();
    const device = await openDevice({
      backend: "cpu",
      ordinal: 0,
      plugin,
      cacheDirectory: join(directory, name),
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
      modules: stablehlo,
      async image(weights) {
        const file = join(directory, `weights-${++images}`);
        const list: WeightArgument[] = [];
        const parts: Uint8Array[] = [];
        let fileOffset = 0;
        for (const { name, dtype, shape, bytes } of weights) {
          list.push({ name, dtype, shape, fileOffset, byteLength: bytes.byteLength, transposed: false });
          parts.push(bytes);
          fileOffset += bytes.byteLength;
        }
        writeFileSync(file, Buffer.concat(parts));
        return openImage({ file, arguments: list }, join(directory, name));
      },
      handles: () => (options.threads === "inline" ? liveHandles() : undefined),
      outOfMemoryCodes: name === "xla-cpu-pjrt" ? ["INTERNAL"] : ["RESOURCE_EXHAUSTED"],
      async [Symbol.asyncDispose]() {
        await device[Symbol.asyncDispose]();
        expect(warnings.splice(0)).toEqual([]);
        // What is left on this thread belongs to another device or to a slab that the test still holds.
        expect(liveHandles().client ?? 0).toBe(before.client ?? 0);
        expect(liveHandles().executable ?? 0).toBe(before.executable ?? 0);
        expect(liveHandles().buffer ?? 0).toBe(before.buffer ?? 0);
      },
    };
  };
}

for (const name of TEST_PLUGIN_NAMES) {
  const { path, skip } = await testPlugin(name);
  if (path === undefined) {
    test.skip(`pjrt ${name}: ${skip}`, () => {});
    continue;
  }
  for (const memory of ["buffers", "arena"] as const) {
    deviceContract(`pjrt ${name}, ${memory}, inline`, openPjrt(name, path, { memory, threads: "inline" }));
    if (name === "lammps") deviceContract(`pjrt ${name}, ${memory}, threads`, openPjrt(name, path, { memory }));
  }
}

// The programs of the Device contract, as StableHLO for PJRT and as JSON for the fake.
//
// Used by device.test.ts and device-pjrt.ts.

import type { ModuleSource } from "../../src/device/device.ts";
import { fakeModule } from "../../src/device/fake-module.ts";
import type { Dtype } from "../../src/tensor/dtype.ts";
import type { Shape } from "../../src/tensor/shape.ts";
import type { TestModules } from "./device.ts";

export const fakeModules: TestModules = {
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

export const stablehloModules: TestModules = {
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

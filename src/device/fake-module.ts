// What the fake device executes: a JSON description of a signature and a named computation on bytes.
//
// A module names its parameters and results like a compiled executable would, so that signature checks and batching run
// unchanged on it. Computations read parameters (batch inputs, then weights) and write results. Used by fake.ts alone;
// tests write modules with fakeModule().

import { assert, ServerError } from "../base/errors.ts";
import { DTYPES, type Dtype } from "../tensor/dtype.ts";
import { byteCount } from "../tensor/shape.ts";
import type { TensorType } from "../tensor/signature.ts";
import type { CompiledMemory, Executable, ModuleSource } from "./device.ts";

export interface FakeModule {
  /** Batch inputs, then weights. */
  readonly parameters: readonly TensorType[];
  readonly results: readonly TensorType[];
  /** Name of a computation: a built-in one (`fakeOperations`) or one that the test gave the device. */
  readonly operation: string;
  readonly costNs?: number | undefined;
  readonly temporaryBytes: number;
}

/** Computes results from parameters, byte for byte as a row-major executable would. */
export type FakeOperation = (
  parameters: readonly Uint8Array[],
  results: readonly Uint8Array[],
  module: FakeModule,
) => void;

/** `identity`: result i is parameter i. `sum_difference`: for i32 or f32 [..] pairs, a + b and a - b. */
export const fakeOperations: Readonly<Record<string, FakeOperation>> = {
  identity(parameters, results) {
    for (const [index, result] of results.entries()) result.set(parameters[index]!.subarray(0, result.byteLength));
  },
  sum_difference([a, b], [sum, difference], { parameters }) {
    const View = parameters[0]!.dtype === "f32" ? Float32Array : Int32Array;
    const view = (bytes: Uint8Array) => new View(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.byteLength / 4);
    const [left, right] = [view(a!), view(b!)];
    if (sum) view(sum).set(left.map((value, index) => value + right[index]!));
    if (difference) view(difference).set(left.map((value, index) => value - right[index]!));
  },
};

/** A module source for the fake device. */
export function fakeModule(
  label: string,
  module: Omit<FakeModule, "temporaryBytes"> & { temporaryBytes?: number },
): ModuleSource {
  return { label, bytes: new TextEncoder().encode(JSON.stringify(module)), compileOptions: {} };
}

/** Errors: INVALID_ARGUMENT for anything that is not such a description, as a compiler would say. */
export function parseFakeModule(
  source: ModuleSource,
  operations: Readonly<Record<string, FakeOperation>>,
): FakeModule & { readonly run: FakeOperation } {
  let parsed: Partial<FakeModule>;
  try {
    parsed = JSON.parse(new TextDecoder().decode(source.bytes)) as Partial<FakeModule>;
  } catch (cause) {
    throw new ServerError("INVALID_ARGUMENT", `${source.label}: not a module of the fake device`, { cause });
  }
  const { parameters, results, operation = "", costNs, temporaryBytes = 0 } = parsed;
  const run = operations[operation];
  if (!parameters?.every(isTensorType) || !results?.every(isTensorType) || !run) {
    const message = `${source.label}: expected parameters, results and a known operation, received '${operation}'`;
    throw new ServerError("INVALID_ARGUMENT", message);
  }
  return { parameters, results, operation, costNs, temporaryBytes, run };
}

function isTensorType(type: TensorType): boolean {
  return Object.hasOwn(DTYPES, type.dtype as Dtype) && byteCount(type.dtype, type.shape) !== undefined;
}

function totalBytes(types: readonly TensorType[]): number {
  return types.reduce((sum, { dtype, shape }) => sum + byteCount(dtype, shape)!, 0);
}

export class FakeExecutable implements Executable {
  readonly parameters: readonly TensorType[];
  readonly results: readonly TensorType[];
  readonly memory: CompiledMemory;
  readonly flops = undefined;
  disposed = false;

  constructor(
    readonly key: string,
    readonly module: FakeModule & { readonly run: FakeOperation },
    private readonly costs: Map<string, number>,
  ) {
    this.parameters = module.parameters;
    this.results = module.results;
    this.memory = {
      argumentBytes: totalBytes(module.parameters),
      outputBytes: totalBytes(module.results),
      temporaryBytes: module.temporaryBytes,
      generatedCodeBytes: 0,
    };
  }

  get storedCostNs(): number | undefined {
    return this.costs.get(this.key);
  }

  storeCost(costNs: number): void {
    this.costs.set(this.key, costNs);
  }

  compute(inputs: readonly Uint8Array[], weights: readonly Uint8Array[], outputs: readonly Uint8Array[]): void {
    const parameters = [...inputs, ...weights];
    assert(parameters.length === this.parameters.length, "slab inputs and weights are the executable's parameters");
    this.module.run(parameters, outputs, this.module);
  }

  [Symbol.dispose](): void {
    this.disposed = true;
  }
}

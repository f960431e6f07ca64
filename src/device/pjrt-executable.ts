// One holder's handle of a shared executable, and the check that a run fits it.
//
// PJRT compares sizes in bytes at most, so that a wrong shape would be garbage, not an error: a run whose slab or weights
// are not what the program was compiled for is a defect of the caller and asserts. Used by pjrt.ts.

import { assert } from "../base/errors.ts";
import { formatShape, sameShape } from "../tensor/shape.ts";
import type { TensorType } from "../tensor/signature.ts";
import type { CompiledMemory, Executable, SlabLayout } from "./device.ts";
import type { Executables, SharedExecutable } from "./executables.ts";
import type { PjrtWeights } from "./pjrt-weights.ts";

export class ExecutableHolder implements Executable {
  readonly key: string;
  readonly parameters: readonly TensorType[];
  readonly results: readonly TensorType[];
  readonly memory: CompiledMemory;
  readonly flops: number | undefined;
  /** Layouts and weights that were found to fit; a batch's are the same objects over and over. */
  readonly fitting = new WeakMap<SlabLayout, WeakSet<object>>();
  private disposed = false;

  constructor(
    private readonly executables: Executables,
    readonly shared: SharedExecutable,
  ) {
    this.key = shared.key;
    ({ parameters: this.parameters, results: this.results } = shared.description);
    ({ memory: this.memory, flops: this.flops } = shared.description);
  }

  get storedCostNs(): number | undefined {
    return this.shared.costNs;
  }

  storeCost(costNs: number): void {
    if (!this.disposed) this.executables.storeCost(this.shared, costNs);
  }

  get live(): boolean {
    return !this.disposed;
  }

  [Symbol.dispose](): void {
    if (this.disposed) return;
    this.disposed = true;
    this.executables.release(this.shared);
  }
}

const NO_WEIGHTS = {};

/** Asserts that inputs, weights and results are those that the program was compiled for. */
export function checkRun(executable: ExecutableHolder, weights: PjrtWeights | undefined, layout: SlabLayout): void {
  assert(executable.live, "an executable runs before it is disposed");
  assert(weights === undefined || weights.live, "weights are used before they are disposed");
  const known = executable.fitting.get(layout) ?? new WeakSet();
  executable.fitting.set(layout, known);
  if (known.has(weights ?? NO_WEIGHTS)) return;
  const given = [...layout.inputs, ...(weights?.tensors ?? [])];
  assertSame(given, executable.parameters, "parameter");
  assertSame(layout.outputs, executable.results, "result");
  known.add(weights ?? NO_WEIGHTS);
}

function assertSame(given: readonly TensorType[], compiled: readonly TensorType[], what: string): void {
  assert(given.length === compiled.length, `${compiled.length} ${what}s are given, not ${given.length}`);
  for (const [index, type] of compiled.entries()) {
    const { dtype, shape } = given[index]!;
    const message = `${what} ${index} is ${type.dtype}${formatShape(type.shape)}, not ${dtype}${formatShape(shape)}`;
    assert(dtype === type.dtype && sameShape(shape, type.shape), message);
  }
}

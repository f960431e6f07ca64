// What `inspect` and `validate` say of a bundle: its tensors, weights, modules and their cost, as plain data.
//
// Made from a Bundle (read only) or from a Model (compiled). Used by inspect.ts and validate.ts.

import type { Bundle } from "../bundle/bundle.ts";
import { type Model, maxBatchSize } from "../model/model.ts";
import { wireName } from "../tensor/dtype.ts";
import { formatShape } from "../tensor/shape.ts";
import { type TensorSpec, wireShape } from "../tensor/signature.ts";

export interface TensorView {
  readonly role: "client input" | "client output" | "input" | "output";
  readonly name: string;
  readonly dtype: string;
  readonly shape: string;
}

export interface ModuleView {
  readonly variant: string;
  readonly batchSize: number;
  /** Bytes, exactly as the compiler says. */
  readonly argumentBytes: number;
  readonly outputBytes: number;
  readonly temporaryBytes: number;
  readonly codeBytes: number;
  /** What one execution computes; null where the compiler does not say. */
  readonly flops: number | null;
  /** Device milliseconds of one execution, measured by warm-up or stored before; null before either. */
  readonly costMs: number | null;
}

export interface BundleView {
  readonly name: string;
  readonly directory: string;
  readonly formatVersion: string;
  readonly description: string;
  readonly hooks: boolean;
  readonly maxBatchSize: number;
  readonly weightTensors: number;
  /** As in the file; on the device each tensor begins at an alignment of its own. */
  readonly weightBytes: number;
  readonly tensors: readonly TensorView[];
  readonly modules: readonly ModuleView[];
  readonly warnings: readonly string[];
}

export function viewOf(model: Model): BundleView {
  const { bundle } = model;
  return {
    name: bundle.name,
    directory: bundle.directory,
    formatVersion: bundle.formatVersion,
    description: bundle.description,
    hooks: bundle.hooks !== undefined,
    maxBatchSize: maxBatchSize(model),
    weightTensors: bundle.weights.arguments.length,
    weightBytes: bundle.weights.arguments.reduce((sum, { byteLength }) => sum + byteLength, 0),
    tensors: tensorsOf(bundle),
    modules: modulesOf(model),
    warnings: bundle.warnings,
  };
}

/** The executable's tensors, and the client's where a hook stands between. */
function tensorsOf({ client, executable }: Bundle): TensorView[] {
  const view = (role: TensorView["role"], specs: readonly TensorSpec[]): TensorView[] =>
    specs.map((spec) => ({
      role,
      name: spec.name,
      dtype: wireName(spec.dtype) ?? spec.dtype,
      shape: formatShape(wireShape(spec)),
    }));
  const own = [...view("input", executable.inputs), ...view("output", executable.outputs)];
  if (client === executable) return own;
  return [...view("client input", client.inputs), ...own, ...view("client output", client.outputs)];
}

function modulesOf({ bundle, units }: Model): ModuleView[] {
  return units.flat().map(({ variant, batchSize, executable, cost }) => ({
    variant: Object.entries(bundle.variants[variant]?.sizes ?? {})
      .map(([letter, size]) => `${letter}=${size}`)
      .join(" "),
    batchSize,
    argumentBytes: executable.memory.argumentBytes,
    outputBytes: executable.memory.outputBytes,
    temporaryBytes: executable.memory.temporaryBytes,
    codeBytes: executable.memory.generatedCodeBytes,
    flops: executable.flops ?? null,
    costMs: cost.ns === undefined ? null : cost.ns / 1e6,
  }));
}

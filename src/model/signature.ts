// The signature check: what a compiled module really takes and returns, against its bundle's manifest and weights.
//
// Parameters are the executable inputs in manifest order, then the weights in argument order; results are the executable
// outputs. A bundle whose module says anything else would compute nonsense, so it is not admitted. Called by load.ts.

import { basename } from "node:path";
import type { Issue } from "../base/errors.ts";
import type { Bundle, ModuleFile } from "../bundle/bundle.ts";
import type { TensorSpec, TensorType } from "../tensor/signature.ts";

/** One parameter or result as the bundle wants it. An extent is undefined where the module may choose it. */
interface Wanted {
  /** As in `parameter 2 (weight 'dense.bias')`. */
  readonly label: string;
  readonly dtype: TensorType["dtype"];
  readonly shape: readonly (number | undefined)[];
  readonly batchAxis: number;
}

/**
 * All differences between a module's entry signature and its bundle, in wire order; none when they agree. A module that
 * serves whatever it was compiled for (batch size 0) may have any batch extent, the same in all its tensors. Variable
 * axes of outputs are the module's to choose.
 */
export function checkSignature(
  bundle: Bundle,
  module: ModuleFile,
  parameters: readonly TensorType[],
  results: readonly TensorType[],
): Issue[] {
  const { executable, weights } = bundle;
  const sizes = bundle.variants[module.variant]!.sizes;
  const batchSize = module.batchSize === 0 ? ownBatchSize(bundle, parameters, results) : module.batchSize;
  const wantedParameters = [
    ...executable.inputs.map((spec, index) =>
      wantedOf(spec, `parameter ${index} (input '${spec.name}')`, batchSize, sizes),
    ),
    ...weights.arguments.map(({ name, dtype, shape }, index): Wanted => {
      return { label: `parameter ${executable.inputs.length + index} (weight '${name}')`, dtype, shape, batchAxis: -1 };
    }),
  ];
  // Letters are local to their tensor, so an output's `t` is not the inputs' `t`.
  const wantedResults = executable.outputs.map((spec, index) =>
    wantedOf(spec, `result ${index} (output '${spec.name}')`, batchSize, {}),
  );
  const file = basename(module.path);
  return [
    ...compare(file, "parameters", wantedParameters, parameters),
    ...compare(file, "results", wantedResults, results),
  ];
}

/** The batch extent that a module of batch size 0 was compiled for: that of its first tensor with a batch axis. */
function ownBatchSize(
  { executable }: Bundle,
  parameters: readonly TensorType[],
  results: readonly TensorType[],
): number | undefined {
  for (const [specs, types] of [[executable.inputs, parameters] as const, [executable.outputs, results] as const]) {
    const index = specs.findIndex((spec) => spec.batchAxis >= 0);
    const spec = specs[index];
    if (spec) return types[index]?.shape[spec.batchAxis];
  }
  return undefined;
}

function wantedOf(
  spec: TensorSpec,
  label: string,
  batchSize: number | undefined,
  sizes: Readonly<Record<string, number>>,
): Wanted {
  const shape = spec.axes.map(({ kind, size, letter }) => {
    if (kind === "batch") return batchSize;
    return kind === "fixed" ? size : sizes[letter];
  });
  return { label, dtype: spec.dtype, shape, batchAxis: spec.batchAxis };
}

function compare(
  file: string,
  what: "parameters" | "results",
  wanted: readonly Wanted[],
  actual: readonly TensorType[],
): Issue[] {
  // Where the count differs, a comparison by position would blame every tensor after the missing one.
  if (wanted.length !== actual.length) {
    const expected = `${wanted.length} ${what}: ${wanted.map(({ label }) => label).join(", ") || "none"}`;
    return [{ path: file, expected, received: `${actual.length}: ${actual.map(formatType).join(", ") || "none"}` }];
  }
  return wanted.flatMap((want, index) => {
    const type = actual[index]!;
    if (want.dtype === type.dtype && agrees(want.shape, type.shape)) return [];
    const expected = `${formatType(want)}${batchNote(want, type)}`;
    return [{ path: `${file}: ${want.label}`, expected, received: formatType(type) }];
  });
}

function agrees(wanted: Wanted["shape"], actual: readonly number[]): boolean {
  return (
    wanted.length === actual.length && wanted.every((extent, axis) => extent === undefined || extent === actual[axis])
  );
}

/** `f32[8,?]`, as XLA writes types, `?` for an extent that the module chooses. */
function formatType({ dtype, shape }: Pick<Wanted, "dtype" | "shape">): string {
  return `${dtype}[${shape.map((extent) => extent ?? "?").join(",")}]`;
}

/** Says which axis is the batch where it is what differs. */
function batchNote({ shape, batchAxis }: Wanted, actual: TensorType): string {
  if (batchAxis < 0 || shape.length !== actual.shape.length || shape[batchAxis] === actual.shape[batchAxis]) return "";
  return ` (${shape[batchAxis]} rows along axis ${batchAxis})`;
}

// validate: a Call held against the model's declared tensors, before anything is queued.
//
// A client's mistake ends here, so it can't fail a batch that others share. What a preprocess hook returned goes through
// the same rules, but is then the hook's mistake: INTERNAL that names the hook. Called by request.ts.

import { ServerError } from "../base/errors.ts";
import type { Variant } from "../bundle/bundle.ts";
import type { Call, CallTensor } from "../call/call.ts";
import type { Model } from "../model/model.ts";
import { wireName } from "../tensor/dtype.ts";
import { byteCount, formatShape, sameShape } from "../tensor/shape.ts";
import { manifestAxis, type TensorSpec } from "../tensor/signature.ts";
import type { Checked } from "./checked.ts";

/** Who gets blamed for a wrong tensor: the client, or the hook that made it. */
export type Origin = "client" | "preprocess";

function wrong(model: Model, origin: Origin, problem: string): ServerError {
  return origin === "client"
    ? new ServerError("INVALID_ARGUMENT", `model '${model.name}': ${problem}`)
    : new ServerError("INTERNAL", `model '${model.name}': preprocess hook: ${problem}`);
}

/**
 * The tensors in the order of `specs`, each declared, of the declared dtype and rank, fixed axes equal, none missing.
 * Errors: INVALID_ARGUMENT (INTERNAL for a hook) naming the tensor and the axis as the manifest counts it, from 1.
 */
export function matchInputs(
  model: Model,
  specs: readonly TensorSpec[],
  tensors: readonly CallTensor[],
  origin: Origin,
): CallTensor[] {
  const ordered: (CallTensor | undefined)[] = new Array(specs.length).fill(undefined);
  for (const tensor of tensors) {
    const index = specs.findIndex((spec) => spec.name === tensor.name);
    if (index < 0) {
      const known = specs.map((spec) => `'${spec.name}'`).join(", ");
      throw wrong(model, origin, `unknown input '${tensor.name}', expected ${known || "none"}`);
    }
    if (ordered[index]) throw wrong(model, origin, `input '${tensor.name}' is given twice`);
    const read = specs[index]!.axes.length === 0 ? asScalar(tensor) : tensor;
    checkTensor(model, specs[index]!, read, origin);
    ordered[index] = read;
  }
  const missing = specs.filter((_, index) => ordered[index] === undefined);
  if (missing.length > 0) {
    throw wrong(model, origin, `missing input ${missing.map((spec) => `'${spec.name}'`).join(", ")}`);
  }
  return ordered as CallTensor[];
}

/** A scalar travels as one element of rank 1; here it has rank 0 again. */
function asScalar(tensor: CallTensor): CallTensor {
  return tensor.shape.length === 1 && tensor.shape[0] === 1 ? { ...tensor, shape: [] } : tensor;
}

function checkTensor(model: Model, spec: TensorSpec, tensor: CallTensor, origin: Origin): void {
  if (tensor.dtype !== spec.dtype) {
    const names = [spec.dtype, tensor.dtype].map((dtype) => wireName(dtype) ?? dtype);
    throw wrong(model, origin, `input '${spec.name}': expected dtype ${names[0]}, received ${names[1]}`);
  }
  if (tensor.shape.length !== spec.axes.length) {
    const expected = formatShape(spec.axes.map((axis) => axis.size));
    const problem = `expected rank ${spec.axes.length} (shape ${expected}), received shape ${formatShape(tensor.shape)}`;
    throw wrong(model, origin, `input '${spec.name}': ${problem}`);
  }
  for (let axis = 0; axis < spec.axes.length; axis++) {
    const { kind, size, letter } = spec.axes[axis]!;
    const extent = tensor.shape[axis]!;
    const name = `axis ${manifestAxis(spec, axis)} ('${letter}')`;
    if (kind === "fixed" && extent !== size) {
      const problem = `${name}: expected ${size}, received ${extent} (shape ${formatShape(tensor.shape)})`;
      throw wrong(model, origin, `input '${spec.name}': ${problem}`);
    }
    if (extent < 1) {
      throw wrong(model, origin, `input '${spec.name}': ${name}: expected at least 1, received ${extent}`);
    }
  }
}

/** What a hook returned must have the bytes that it says: a slab holds others' rows behind a shorter tensor's. */
export function checkBytes(model: Model, hook: string, { name, dtype, shape, data }: CallTensor): void {
  const expected = byteCount(dtype, shape);
  if (expected === undefined || expected === data.byteLength) return;
  const problem = `tensor '${name}': expected ${expected} bytes for ${dtype}${formatShape(shape)}, received ${data.byteLength}`;
  throw new ServerError("INTERNAL", `model '${model.name}': ${hook} hook: ${problem}`);
}

/** Throws INVALID_ARGUMENT when an output is asked for that the model does not declare. */
export function checkRequestedOutputs(model: Model, call: Call): void {
  const { outputs } = model.bundle.client;
  for (const name of call.requestedOutputs) {
    if (outputs.some((spec) => spec.name === name)) continue;
    const known = outputs.map((spec) => `'${spec.name}'`).join(", ");
    throw wrong(model, "client", `unknown output '${name}', expected one of ${known}`);
  }
}

/**
 * Rows, variant and inputs of tensors that `matchInputs` put into the executable's order.
 * Errors: as matchInputs, listing the known variants, or the row counts that can be served.
 */
export function resolve(model: Model, tensors: readonly CallTensor[], origin: Origin): Checked {
  const specs = model.bundle.executable.inputs;
  const rows = commonRows(model, specs, tensors, origin);
  const variant = findVariant(model, specs, tensors, origin);
  if (!model.queue.rules.coalescable) checkExact(model, variant, rows, tensors, origin);
  return { model, variant, rows, inputs: tensors.map((tensor) => tensor.data) };
}

function commonRows(
  model: Model,
  specs: readonly TensorSpec[],
  tensors: readonly CallTensor[],
  origin: Origin,
): number {
  let rows = -1;
  for (let index = 0; index < specs.length; index++) {
    const { batchAxis } = specs[index]!;
    if (batchAxis < 0) continue;
    const extent = tensors[index]!.shape[batchAxis]!;
    if (rows >= 0 && extent !== rows) {
      const problem = `expected ${rows} rows as in '${specs[0]!.name}', received ${extent}`;
      throw wrong(model, origin, `input '${specs[index]!.name}': ${problem}`);
    }
    rows = extent;
  }
  return rows < 0 ? 1 : rows;
}

function findVariant(
  model: Model,
  specs: readonly TensorSpec[],
  tensors: readonly CallTensor[],
  origin: Origin,
): number {
  const { variants } = model.bundle;
  const index = variants.findIndex((variant) => fits(variant, specs, tensors));
  if (index >= 0) return index;
  const received = specs.flatMap((spec, input) =>
    spec.axes.flatMap(({ kind, letter }, axis) =>
      kind === "variable" ? `${letter}=${tensors[input]!.shape[axis]} ('${spec.name}')` : [],
    ),
  );
  const known = variants.map(({ sizes }) => `{${Object.entries(sizes).map(([letter, size]) => `${letter}: ${size}`)}}`);
  throw wrong(model, origin, `unknown shape variant ${received.join(", ")}, expected one of ${known.join(", ")}`);
}

function fits(variant: Variant, specs: readonly TensorSpec[], tensors: readonly CallTensor[]): boolean {
  for (let input = 0; input < specs.length; input++) {
    const { axes } = specs[input]!;
    for (let axis = 0; axis < axes.length; axis++) {
      const { kind, letter } = axes[axis]!;
      if (kind === "variable" && tensors[input]!.shape[axis] !== variant.sizes[letter]) return false;
    }
  }
  return true;
}

/** A model that can't be padded takes only shapes that one of its modules was compiled for. */
function checkExact(model: Model, variant: number, rows: number, tensors: readonly CallTensor[], origin: Origin): void {
  const units = model.units[variant]!;
  const matches = units.some(({ layout }) =>
    layout.inputs.every((slot, index) => sameShape(slot.shape, tensors[index]!.shape)),
  );
  if (matches) return;
  const expected = units.map(({ layout }) => layout.inputs.map((slot) => formatShape(slot.shape)).join(" "));
  const received = tensors.map((tensor) => formatShape(tensor.shape)).join(" ");
  throw wrong(model, origin, `expected input shapes ${expected.join(" or ")}, received ${received} (${rows} rows)`);
}

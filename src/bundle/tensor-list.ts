// The tensor lists of a manifest: `{name, dtype, shape, dims}` entries to TensorSpecs in wire order.
//
// A shape is a string of letters, one an axis; `n` or `b` is the batch axis, every other letter has its size in dims,
// -1 for variable. Format 2.0 writes axes in reverse. Used by manifest.ts.

import { DTYPE_NAMES, type Dtype, isDtype, wireName } from "../tensor/dtype.ts";
import { byteCount } from "../tensor/shape.ts";
import type { Axis, TensorSpec } from "../tensor/signature.ts";
import { type Field, hint } from "./fields.ts";

/** Who sees the tensors: executables can't take BYTES, clients can't name the 8-bit floats. */
export type Audience = "executable" | "client" | "both";

export interface ListRules {
  readonly audience: Audience;
  /** Format 2.0: axes are written column-major, unknown keys are ignored. */
  readonly reversed: boolean;
}

const TENSOR_KEYS = ["name", "dtype", "shape", "dims"];
const BATCH_LETTERS = ["n", "b"];

/** The tensors of a list, names unique; those with issues are left out, their issues filed. */
export function readTensorList(field: Field, rules: ListRules): TensorSpec[] {
  const items = field.list("a list of tensors, each {name, dtype, shape, dims}") ?? [];
  const names = new Set<string>();
  return items.flatMap((item) => {
    if (!item.mapping("a tensor: {name, dtype, shape, dims}")) return [];
    if (!rules.reversed) item.onlyKeys(TENSOR_KEYS);
    const name = readName(item.get("name"), names);
    const dtype = readDtype(item.get("dtype"), rules.audience);
    const written = readAxes(item);
    if (name === undefined || dtype === undefined || written === undefined) return [];

    const axes = rules.reversed ? written.toReversed() : written;
    const fixed = axes.flatMap((axis) => (axis.kind === "fixed" ? [axis.size] : []));
    if (dtype !== "bytes" && byteCount(dtype, fixed) === undefined) {
      item.get("dims").refuse("sizes whose product in bytes is below 2^53", fixed.join(" * "));
      return [];
    }
    const batchAxis = axes.findIndex((axis) => axis.kind === "batch");
    return [{ name, dtype, axes, batchAxis, reversed: rules.reversed }];
  });
}

function readName(field: Field, taken: Set<string>): string | undefined {
  const name = field.string("the tensor's name");
  if (name === undefined) return undefined;
  if (name === "") return field.refuse("a name of at least one letter");
  if (taken.has(name)) return field.refuse("a name that no other tensor of the list has");
  taken.add(name);
  return name;
}

function readDtype(field: Field, audience: Audience): Dtype | undefined {
  const token = field.string("a dtype, e.g. f32 or i64");
  if (token === undefined) return undefined;
  const known = DTYPE_NAMES.filter((name) => audience === "client" || name !== "bytes");
  if (!isDtype(token)) return field.refuse(`a dtype (${hint(token, known)})`);
  if (token === "bytes" && audience !== "client") {
    return field.refuse("a dtype of fixed size: bytes is for client_inputs and client_outputs");
  }
  if (audience !== "executable" && wireName(token) === undefined) {
    return field.refuse("a dtype that clients can name: the protocol has none for this one, so a hook must convert it");
  }
  return token;
}

/** The axes in the order in which they are written. */
function readAxes(tensor: Field): Axis[] | undefined {
  const shape = tensor.get("shape");
  const dims = tensor.get("dims");
  const letters = shape.string("a string of letters, one an axis, e.g. 'nt'; '' for a scalar");
  if (dims.present && !dims.mapping("a mapping of letters to sizes, e.g. {t: 128}")) return undefined;
  if (letters === undefined) return undefined;
  if (!/^[A-Za-z]*$/.test(letters)) return shape.refuse("letters a-z and A-Z only, one an axis");
  if (new Set(letters).size < letters.length)
    return shape.refuse("each letter once: axes of equal size have letters of their own");
  if (BATCH_LETTERS.every((letter) => letters.includes(letter))) {
    return shape.refuse("one batch axis: both 'n' and 'b' mark it");
  }

  const axes = [...letters].map((letter): Axis | undefined => {
    const field = dims.get(letter);
    if (BATCH_LETTERS.includes(letter)) {
      if (field.present) return field.refuse("no size for the batch axis: batching.compiled_batch_sizes gives it");
      return { letter, kind: "batch", size: -1 };
    }
    if (field.value === -1) return { letter, kind: "variable", size: -1 };
    const size = field.integer(1, Number.MAX_SAFE_INTEGER, `a size for '${letter}': -1 (variable) or a whole number`);
    return size === undefined ? undefined : { letter, kind: "fixed", size };
  });
  let good = axes.every((axis) => axis !== undefined);
  for (const letter of Object.keys(dims.value ?? {})) {
    if (letters.includes(letter) && letter.length === 1) continue;
    dims.get(letter).refuse(`a letter of the shape '${letters}'`, `'${letter}'`);
    good = false;
  }
  return good ? (axes as Axis[]) : undefined;
}

/** All or none of the executable's inputs have a batch axis: rows of a batch are rows of every input. */
export function checkBatchAxes(field: Field, inputs: readonly TensorSpec[]): void {
  const batched = inputs.filter((spec) => spec.batchAxis >= 0);
  if (batched.length === 0 || batched.length === inputs.length) return;
  const without = inputs.filter((spec) => spec.batchAxis < 0).map((spec) => `'${spec.name}'`);
  field.refuse(
    `a batch axis ('n' or 'b') in all inputs or in none, and '${batched[0]!.name}' has one`,
    `none in ${without.join(", ")}`,
  );
}

// The weight arguments of a model: which tensors of its safetensors file, in which order, and how they lie there.
//
// The order comes from the manifest, else from the file's metadata. A 2.0 file holds tensors with all axes reversed, so
// the argument's shape is the reverse of the file's. Called by load.ts.

import { join } from "node:path";
import type { Issue } from "../base/errors.ts";
import type { WeightArgument, WeightsSource } from "../tensor/weights.ts";
import { cut, Field } from "./fields.ts";
import type { Manifest } from "./manifest.ts";
import { readSafetensors, type SafetensorsHeader } from "./safetensors.ts";

/** The weights that the manifest calls for. Meaningless where issues were filed. */
export function readWeights(directory: string, manifest: Manifest, issues: Issue[]): WeightsSource {
  const { file, arguments: listed } = manifest.weights;
  if (file === undefined) return { file: undefined, arguments: [] };
  const path = join(directory, file);
  const header = readSafetensors(path, file, issues);
  if (!header) return { file: path, arguments: [] };
  return { file: path, arguments: weightArguments(header, listed, manifest.formatVersion === "2.0", issues, file) };
}

/** The arguments among a header's tensors. A name may be listed twice: tied weights are stored once. */
export function weightArguments(
  header: SafetensorsHeader,
  listed: readonly string[] | undefined,
  reversed: boolean,
  issues: Issue[],
  label: string,
): WeightArgument[] {
  const order = new Field(header.metadata.get("argument_order"), `${label}.__metadata__.argument_order`, issues);
  const names = listed ?? argumentOrder(order, header.tensors.size, reversed, issues);
  const source = listed ? "weights.arguments" : order.path;
  return names.flatMap((name, index) => {
    const field = new Field(name, `${source}[${index}]`, issues);
    const tensor = header.tensors.get(name);
    if (!tensor) return field.refuse(`a tensor of ${label}`) ?? [];
    const { dtype, dtypeName, shape, fileOffset, byteLength } = tensor;
    if (!dtype) return field.refuse("a tensor of a dtype that we serve", `'${cut(name)}' of ${cut(dtypeName)}`) ?? [];
    const transposed = reversed && shape.length >= 2;
    return [{ name, dtype, shape: transposed ? shape.toReversed() : shape, fileOffset, byteLength, transposed }];
  });
}

/** The file's own order, a JSON list of names; a file without tensors needs none. */
function argumentOrder(field: Field, tensors: number, reversed: boolean, issues: Issue[]): string[] {
  if (!field.present) {
    if (tensors === 0) return [];
    const missing = reversed ? field : new Field(undefined, "weights.arguments", issues);
    const otherwise = reversed ? "" : ", as the file has no __metadata__.argument_order";
    missing.refuse(`the names of the tensors in argument order${otherwise}`);
    return [];
  }
  const expected = "a JSON list of tensor names";
  const order = parseOrder(String(field.value));
  if (order === undefined) return field.refuse(expected) ?? [];
  const items = new Field(order, field.path, issues).list(expected) ?? [];
  return items.flatMap((item) => item.string("a tensor's name") ?? []);
}

function parseOrder(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

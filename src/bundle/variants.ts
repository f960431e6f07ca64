// Shape variants: the sizes of the executable inputs' variable axes that modules were compiled for.
//
// `input_shapes` lists them; entry i belongs to the modules `model.v<i>...`. A letter has one size in all inputs of a
// variant. A model without variable axes has the one variant {}. Used by manifest.ts.

import type { TensorSpec } from "../tensor/signature.ts";
import type { Variant } from "./bundle.ts";
import type { Field } from "./fields.ts";

/** The variants, at least one; undefined when there are issues. */
export function readVariants(field: Field, inputs: readonly TensorSpec[]): Variant[] | undefined {
  const letters = variableLetters(inputs);
  const shown = `{${letters.map((letter) => `${letter}: size`).join(", ")}}`;
  if (!field.present) {
    if (letters.length === 0) return [{ sizes: {} }];
    return field.refuse(`a list of ${shown}: the sizes that modules were compiled for, as those axes are variable`);
  }
  const items = field.list(`a list of ${shown}`);
  if (!items) return undefined;
  if (letters.length === 0) return field.refuse("no such key, as no executable input has a variable axis (-1)");
  if (items.length === 0) return field.refuse(`at least one ${shown}`);

  const seen = new Map<string, number>();
  const variants = items.map((item, index): Variant | undefined => {
    const variant = readVariant(item, letters, shown);
    if (!variant) return undefined;
    const key = letters.map((letter) => variant.sizes[letter]).join(",");
    const twin = seen.get(key);
    if (twin !== undefined) return item.refuse(`sizes that differ from entry ${twin}`, `[${key}] again`);
    seen.set(key, index);
    return variant;
  });
  return variants.every((variant) => variant !== undefined) ? variants : undefined;
}

function readVariant(item: Field, letters: readonly string[], shown: string): Variant | undefined {
  const mapping = item.mapping(shown);
  if (!mapping) return undefined;
  const sizes: Record<string, number> = {};
  let good = true;
  for (const letter of letters) {
    const size = item.get(letter).integer(1, Number.MAX_SAFE_INTEGER, "a size: a whole number");
    if (size === undefined) good = false;
    else sizes[letter] = size;
  }
  for (const key of Object.keys(mapping)) {
    if (letters.includes(key)) continue;
    item.get(key).refuse(`a variable axis of the executable inputs (${letters.join(", ")})`, `'${key}'`);
    good = false;
  }
  return good ? { sizes } : undefined;
}

/** In order of inputs, then of their axes as written; each letter once. */
function variableLetters(inputs: readonly TensorSpec[]): string[] {
  const letters = inputs.flatMap((spec) => {
    const axes = spec.reversed ? spec.axes.toReversed() : spec.axes;
    return axes.flatMap((axis) => (axis.kind === "variable" ? [axis.letter] : []));
  });
  return [...new Set(letters)];
}

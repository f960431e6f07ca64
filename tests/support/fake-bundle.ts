// Bundles for the fake device: one f32 input `x`, one f32 output `y`, rows of a width, modules as JSON files.
//
// Used by fake-serving.ts; what a recipe leaves out is the plainest thing.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Bundle } from "../../src/bundle/bundle.ts";
import type { ModelLimits } from "../../src/model/load.ts";
import type { TensorSpec } from "../../src/tensor/signature.ts";

export const DEFAULT_WIDTH = 4;

export interface FakeModelRecipe {
  readonly name: string;
  /** Compiled sizes of a model with rows of `width` (4) numbers. */
  readonly sizes?: readonly number[];
  readonly width?: number;
  /** Compiled sizes by width, for a model with variants instead. */
  readonly variants?: Readonly<Record<number, readonly number[]>>;
  /** Rows are the last axis, [width, n], not the first. */
  readonly rowsLast?: boolean;
  readonly costNs?: number;
  /** A named operation of the device; `identity` by default. */
  readonly operation?: string;
  readonly limits?: Partial<ModelLimits>;
}

/** [rows, width], or the other way round. */
export function shapeOf(recipe: Pick<FakeModelRecipe, "rowsLast">, rows: number, width: number): number[] {
  return recipe.rowsLast ? [width, rows] : [rows, width];
}

function spec(name: string, recipe: FakeModelRecipe): TensorSpec {
  const rows = { letter: "n", kind: "batch", size: -1 } as const;
  const width = recipe.variants
    ? ({ letter: "d", kind: "variable", size: -1 } as const)
    : ({ letter: "d", kind: "fixed", size: recipe.width ?? DEFAULT_WIDTH } as const);
  const axes = recipe.rowsLast ? [width, rows] : [rows, width];
  return { name, dtype: "f32", axes, batchAxis: recipe.rowsLast ? 1 : 0, reversed: false };
}

/** Writes the modules below `directory`. */
export function fakeBundle(directory: string, recipe: FakeModelRecipe): Bundle {
  const { name, operation = "identity", costNs } = recipe;
  const byWidth = recipe.variants ?? { [recipe.width ?? DEFAULT_WIDTH]: recipe.sizes ?? [1] };
  const widths = Object.keys(byWidth).map(Number);
  const modules = widths.flatMap((width, variant) =>
    byWidth[width]!.map((batchSize) => {
      const path = join(directory, `${name}.v${variant}.b${batchSize}.json`);
      const type = { dtype: "f32", shape: shapeOf(recipe, batchSize, width) };
      writeFileSync(path, JSON.stringify({ parameters: [type], results: [type], operation, costNs }));
      return { variant, batchSize, path };
    }),
  );
  const signature = { inputs: [spec("x", recipe)], outputs: [spec("y", recipe)] };
  return {
    name,
    directory,
    formatVersion: "3.0",
    description: "",
    executable: signature,
    client: signature,
    variants: widths.map((width) => ({ sizes: recipe.variants ? { d: width } : {} })),
    modules,
    weights: { file: undefined, arguments: [] },
    compiledBatchSizes: recipe.sizes ?? [],
    maxQueueDelayUs: 0,
    priorityLevels: 1,
    warmup: false,
    compileOptions: {},
    hooks: undefined,
    provenance: {},
    warnings: [],
  };
}

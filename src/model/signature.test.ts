// A module's real signature is held against its bundle: each way to differ has its message, agreement has none.

import { describe, expect, test } from "bun:test";
import { formatIssues } from "../base/errors.ts";
import type { Bundle } from "../bundle/bundle.ts";
import type { Dtype } from "../tensor/dtype.ts";
import type { TensorSpec, TensorType } from "../tensor/signature.ts";
import { checkSignature } from "./signature.ts";

/** `f32[4,?t,3]`: -1 for `n` (batch) and for letters with a question mark. */
function spec(name: string, text: string): TensorSpec {
  const [, dtype, list = ""] = /^(\w+)\[(.*)\]$/.exec(text)!;
  const axes = list
    .split(",")
    .filter(Boolean)
    .map((axis, index): TensorSpec["axes"][number] => {
      if (axis === "n") return { letter: "n", kind: "batch", size: -1 };
      if (axis.startsWith("?")) return { letter: axis.slice(1), kind: "variable", size: -1 };
      return { letter: "acdefg"[index]!, kind: "fixed", size: Number(axis) };
    });
  const batchAxis = axes.findIndex(({ kind }) => kind === "batch");
  return { name, dtype: dtype as Dtype, axes, batchAxis, reversed: false };
}

function types(...texts: string[]): TensorType[] {
  return texts.map((text) => {
    const [, dtype, list = ""] = /^(\w+)\[(.*)\]$/.exec(text)!;
    return { dtype: dtype as Dtype, shape: list.split(",").filter(Boolean).map(Number) };
  });
}

interface Recipe {
  inputs: Record<string, string>;
  outputs: Record<string, string>;
  weights?: Record<string, string>;
  sizes?: Record<string, number>[];
}

/** The messages of a module `model.b<batchSize>.mlir` with these types. */
function check(recipe: Recipe, batchSize: number, parameters: string[], results: string[], variant = 0): string {
  const specs = (list: Record<string, string>) => Object.entries(list).map(([name, text]) => spec(name, text));
  const executable = { inputs: specs(recipe.inputs), outputs: specs(recipe.outputs) };
  const weights = Object.entries(recipe.weights ?? {}).map(([name, text]) => {
    return { name, ...types(text)[0]!, fileOffset: 0, byteLength: 0, transposed: false };
  });
  const bundle = {
    executable,
    client: executable,
    variants: (recipe.sizes ?? [{}]).map((sizes) => ({ sizes })),
    weights: { file: undefined, arguments: weights },
  } as unknown as Bundle;
  const path = batchSize === 0 ? "/m/model.mlir" : `/m/model.b${batchSize}.mlir`;
  return formatIssues(
    "m",
    checkSignature(bundle, { variant, batchSize, path }, types(...parameters), types(...results)),
  );
}

const DENSE: Recipe = {
  inputs: { x: "f32[n,3]" },
  outputs: { y: "f32[n,2]" },
  weights: { weight: "f32[2,3]", bias: "f32[2]" },
};

describe("a module that agrees", () => {
  test.each<[string, Recipe, number, string[], string[]]>([
    ["with its batch size", DENSE, 4, ["f32[4,3]", "f32[2,3]", "f32[2]"], ["f32[4,2]"]],
    ["without weights", { ...DENSE, weights: {} }, 1, ["f32[1,3]"], ["f32[1,2]"]],
    ["with scalars", { inputs: { x: "i64[]" }, outputs: { y: "bool[]" } }, 1, ["i64[]"], ["bool[]"]],
    [
      "with the batch axis elsewhere",
      { inputs: { x: "f32[3,n]" }, outputs: { y: "f32[n]" } },
      2,
      ["f32[3,2]"],
      ["f32[2]"],
    ],
    ["with a batch of its own", DENSE, 0, ["f32[7,3]", "f32[2,3]", "f32[2]"], ["f32[7,2]"]],
    ["without inputs", { inputs: {}, outputs: { y: "f32[n]" } }, 0, [], ["f32[5]"]],
  ])("%s", (_, recipe, batchSize, parameters, results) => {
    expect(check(recipe, batchSize, parameters, results)).toBe("");
  });

  test("in each variant; an output's variable axis is the module's to choose", () => {
    const recipe: Recipe = {
      inputs: { ids: "i64[n,?t]", mask: "i64[n,?t]" },
      outputs: { y: "f32[n,?t]" },
      sizes: [{ t: 32 }, { t: 128 }],
    };
    expect(check(recipe, 1, ["i64[1,32]", "i64[1,32]"], ["f32[1,8]"], 0)).toBe("");
    expect(check(recipe, 1, ["i64[1,128]", "i64[1,128]"], ["f32[1,128]"], 1)).toBe("");
    expect(check(recipe, 1, ["i64[1,128]", "i64[1,32]"], ["f32[1,8]"], 0)).toBe(
      "m: model.b1.mlir: parameter 0 (input 'ids'): expected i64[1,32], received i64[1,128]",
    );
  });
});

describe("a module that differs", () => {
  test("in the count of parameters", () => {
    expect(check(DENSE, 1, ["f32[1,3]", "f32[2,3]"], ["f32[1,2]"])).toBe(
      "m: model.b1.mlir: expected 3 parameters: parameter 0 (input 'x'), parameter 1 (weight 'weight'), parameter 2 (weight 'bias'), received 2: f32[1,3], f32[2,3]",
    );
  });

  test("in the count of results", () => {
    const parameters = ["f32[1,3]", "f32[2,3]", "f32[2]"];
    expect(check(DENSE, 1, parameters, ["f32[1,2]", "f32[1]"])).toBe(
      "m: model.b1.mlir: expected 1 results: result 0 (output 'y'), received 2: f32[1,2], f32[1]",
    );
    expect(check(DENSE, 1, parameters, [])).toEndWith("received 0: none");
  });

  test("in dtype", () => {
    expect(check(DENSE, 1, ["f64[1,3]", "f32[2,3]", "bf16[2]"], ["f32[1,2]"])).toBe(
      "m: model.b1.mlir: parameter 0 (input 'x'): expected f32[1,3], received f64[1,3]\n" +
        "m: model.b1.mlir: parameter 2 (weight 'bias'): expected f32[2], received bf16[2]",
    );
  });

  test("in shape and in rank", () => {
    expect(check(DENSE, 1, ["f32[3]", "f32[2,3]", "f32[2]"], ["f32[1,5]"])).toBe(
      "m: model.b1.mlir: parameter 0 (input 'x'): expected f32[1,3], received f32[3]\n" +
        "m: model.b1.mlir: result 0 (output 'y'): expected f32[1,2], received f32[1,5]",
    );
  });

  test("in its batch size: the file's name lies", () => {
    expect(check(DENSE, 4, ["f32[1,3]", "f32[2,3]", "f32[2]"], ["f32[4,2]"])).toBe(
      "m: model.b4.mlir: parameter 0 (input 'x'): expected f32[4,3] (4 rows along axis 0), received f32[1,3]",
    );
  });

  test("in weights that are swapped, or were not transposed", () => {
    expect(check(DENSE, 1, ["f32[1,3]", "f32[2]", "f32[2,3]"], ["f32[1,2]"])).toBe(
      "m: model.b1.mlir: parameter 1 (weight 'weight'): expected f32[2,3], received f32[2]\n" +
        "m: model.b1.mlir: parameter 2 (weight 'bias'): expected f32[2], received f32[2,3]",
    );
    expect(check(DENSE, 1, ["f32[1,3]", "f32[3,2]", "f32[2]"], ["f32[1,2]"])).toContain("weight 'weight'");
  });

  test("with a batch of its own that is not the same everywhere", () => {
    const recipe: Recipe = { inputs: { a: "f32[n]", b: "f32[2,n]" }, outputs: { y: "f32[n]" } };
    expect(check(recipe, 0, ["f32[6]", "f32[2,6]"], ["f32[6]"])).toBe("");
    expect(check(recipe, 0, ["f32[6]", "f32[2,5]"], ["f32[1]"])).toBe(
      "m: model.mlir: parameter 1 (input 'b'): expected f32[2,6] (6 rows along axis 1), received f32[2,5]\n" +
        "m: model.mlir: result 0 (output 'y'): expected f32[6] (6 rows along axis 0), received f32[1]",
    );
  });

  test("in inputs and outputs at once: everything is reported", () => {
    expect(check(DENSE, 2, ["i8[2,3]", "i8[2,3]", "i8[2]"], ["i8[2,2]"]).split("\n")).toHaveLength(4);
  });
});

// A model repository for stock clients: an identity model of every dtype, one of strings with hooks, a wide one, the
// example of Triton's clients, and one that is broken.
//
// Small on purpose: what is tried here is the way in and out, not the device. Used by tests/e2e/clients*.test.ts.

import { DTYPE_NAMES, type Dtype, wireName } from "../../src/tensor/dtype.ts";
import { type BundleRecipe, type TempRepository, tempRepository } from "./bundles.ts";

/** Elements of a row of the identity models. */
export const WIDTH = 3;
/** Bytes of a row of the model `wide`. */
export const WIDE_ROW_BYTES = 4 * 2 ** 20;
const WIDE_ROWS_MAX = 50;

/** StableHLO's names of our element types. */
const ELEMENT_TYPES: Readonly<Partial<Record<Dtype, string>>> = {
  bool: "i1",
  i8: "i8",
  i16: "i16",
  i32: "i32",
  i64: "i64",
  u8: "ui8",
  u16: "ui16",
  u32: "ui32",
  u64: "ui64",
  f16: "f16",
  bf16: "bf16",
  f32: "f32",
  f64: "f64",
};

/** The dtypes that have an identity model, `identity_<dtype>`: all that an executable and the wire share. */
export const CLIENT_DTYPES = DTYPE_NAMES.filter((dtype) => ELEMENT_TYPES[dtype] && wireName(dtype));

function identity(dtype: Dtype, width: number, sizes: readonly number[]): BundleRecipe {
  const files: Record<string, string> = {
    "manifest.yaml": `format_version: "3.0"
executable_inputs: [{name: x, dtype: ${dtype}, shape: nd, dims: {d: ${width}}}]
executable_outputs: [{name: y, dtype: ${dtype}, shape: nd, dims: {d: ${width}}}]
batching: {compiled_batch_sizes: [${sizes}]}
`,
  };
  for (const size of sizes) {
    const type = `tensor<${size}x${width}x${ELEMENT_TYPES[dtype]}>`;
    files[`model.b${size}.mlir`] = `module { func.func @main(%x: ${type}) -> ${type} { return %x : ${type} } }\n`;
  }
  return { files };
}

/**
 * Reverses strings (by bytes) and doubles their lengths. With the parameter `wait` it does so only when the client has
 * given up; with `refuse` or `fail` it throws.
 */
const STRINGS: BundleRecipe = {
  files: {
    "manifest.yaml": `format_version: "3.0"
executable_inputs: [{name: length, dtype: i32, shape: n}]
executable_outputs: [{name: doubled, dtype: i32, shape: n}]
client_inputs: [{name: text, dtype: bytes, shape: n}]
client_outputs: [{name: reversed, dtype: bytes, shape: n}, {name: doubled, dtype: i32, shape: n}]
batching: {compiled_batch_sizes: [4]}
`,
    "model.b4.mlir": `module { func.func @main(%x: tensor<4xi32>) -> tensor<4xi32> {
  %y = stablehlo.add %x, %x : tensor<4xi32>
  return %y : tensor<4xi32>
} }
`,
    "model.ts": `import { InvalidInput, registerModel } from "xlaserver";

registerModel({
  async preprocess([text], { parameters, state, signal }) {
    if (text?.dtype !== "bytes") throw new Error("text is not BYTES");
    if (parameters.wait) await new Promise((resolve) => signal.addEventListener("abort", resolve));
    if (parameters.refuse) throw new InvalidInput("refused on request");
    if (parameters.fail) throw new Error("failed on request");
    state.texts = text.data;
    return [{ name: "length", dtype: "i32", shape: text.shape, data: Int32Array.from(text.data, ({ length }) => length) }];
  },
  postprocess([doubled], { state }) {
    const reversed = (state.texts as Uint8Array[]).map((bytes) => bytes.toReversed());
    return [{ name: "reversed", dtype: "bytes", shape: [reversed.length], data: reversed }, doubled!];
  },
});
`,
  },
};

export function clientRepository(): TempRepository {
  const recipes: Record<string, BundleRecipe> = {
    simple: { from: "simple" },
    strings: STRINGS,
    wide: identity("u8", WIDE_ROW_BYTES, [1, WIDE_ROWS_MAX]),
    broken: { files: { "manifest.yaml": 'format_version: "3.0"\n' } },
  };
  for (const dtype of CLIENT_DTYPES) recipes[`identity_${dtype}`] = identity(dtype, WIDTH, [1, 4]);
  return tempRepository(recipes);
}

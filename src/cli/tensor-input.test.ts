// Values there and back for every dtype, files, and every mistake with its message.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Dtype } from "../tensor/dtype.ts";
import { UsageError } from "./arguments.ts";
import { readInputs, type TensorInfo, type TensorValue } from "./tensor-input.ts";
import { tensorToJson, tensorToRow } from "./tensor-output.ts";

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "xlaserver-input-"));
});
afterAll(() => rmSync(directory, { recursive: true }));

function file(name: string, content: string | Uint8Array): string {
  writeFileSync(join(directory, name), content);
  return `@${join(directory, name)}`;
}

/** A version 1 .npy file, its header padded as NumPy pads it. */
function npy(descr: string, shape: string, data: ArrayBufferView, fortran = "False"): Uint8Array {
  const dictionary = `{'descr': '${descr}', 'fortran_order': ${fortran}, 'shape': ${shape}, }`;
  const header = `${dictionary.padEnd(117)}\n`;
  const prefix = Buffer.from(`\x93NUMPY\x01\x00${String.fromCharCode(header.length, 0)}`, "latin1");
  return Buffer.concat([prefix, Buffer.from(header), Buffer.from(data.buffer)]);
}

const info = (dtype: Dtype, shape: number[]): TensorInfo => ({ name: "x", dtype, shape });
const read = async (tensor: TensorInfo, value: string): Promise<TensorValue> =>
  (await readInputs([`x=${value}`], [tensor]))[0]!;

test.each<[Dtype, string, unknown[]]>([
  ["i8", "[-128, 127]", [-128, 127]],
  ["u8", "[0, 255]", [0, 255]],
  ["i16", "[-32768, 32767]", [-32768, 32767]],
  ["u16", "[65535, 0]", [65535, 0]],
  ["i32", "[-2147483648, 5]", [-2147483648, 5]],
  ["u32", "[4294967295, 1]", [4294967295, 1]],
  ["i64", "[-9223372036854775808, 9007199254740993]", ["-9223372036854775808", "9007199254740993"]],
  ["u64", "[18446744073709551615, 1]", ["18446744073709551615", 1]],
  ["bool", "[true, false]", [true, false]],
  ["f16", '[1.5, "-Infinity"]', [1.5, "-Infinity"]],
  ["bf16", "[1.0078125, 3.0]", [1.0078125, 3]],
  ["f32", '[0.1, 1e-3, "NaN"]', [0.1, 0.001, "NaN"]],
  ["f64", "[0.1, -2]", [0.1, -2]],
  ["bytes", '["a", "", "ü"]', ["a", "", "ü"]],
])("%s: %s there and back", async (dtype, text, expected) => {
  const value = await read(info(dtype, [-1]), text);
  expect(value.shape).toEqual([expected.length]);
  expect(tensorToJson(value).data as unknown[]).toEqual(expected);
});

test.each<[Dtype, string, string]>([
  ["i8", "128", "element 0: expected an integer from -128 to 127, received 128"],
  ["u8", "[1, -1]", "element 1: expected an integer from 0 to 255, received -1"],
  ["i32", "1.5", "expected an integer"],
  ["i32", '"1"', 'expected an integer from -2147483648 to 2147483647, received "1"'],
  ["bool", "1", "expected true or false, received 1"],
  ["f32", "true", "expected a number"],
  ["f32", "[1, 2", "not JSON"],
  ["f32", "[[1], [2, 3]]", "lists of unequal lengths: [1] and, at 1, [2]"],
  ["f32", "[[1], 2]", "lists of unequal lengths"],
  ["f32", '{"a": 1}', "expected values or lists of them"],
  ["f32", "[[[1]]]", "expected [-1,2], received [1,1,1]"],
  ["bytes", "[1]", "expected strings"],
  ["f32", "@no/such/file", "no such file"],
])("%s: %s is wrong usage", async (dtype, text, message) => {
  const error = await read(info(dtype, [-1, 2]), text).catch((thrown) => thrown);
  expect(error).toBeInstanceOf(UsageError);
  expect(error.message).toContain(message);
});

test("axes that are missing in front become 1; plain text is a BYTES element", async () => {
  expect((await read(info("f32", [-1, 2]), "[1, 2]")).shape).toEqual([1, 2]);
  expect((await read(info("f32", [-1]), "3")).shape).toEqual([1]);
  const text = await read(info("bytes", [-1]), 'a text, not "JSON"');
  expect(tensorToJson(text)).toEqual({ name: "x", datatype: "BYTES", shape: [1], data: ['a text, not "JSON"'] });
  expect(tensorToJson(await read(info("bytes", [-1]), "5")).data).toEqual(["5"]);
});

test("files: JSON, .npy, raw elements, raw bytes", async () => {
  const floats = Float32Array.of(1, 2, 3, 4);
  const raw = new Uint8Array(floats.buffer);
  const expected = { shape: [2, 2], bytes: raw };
  expect(await read(info("f32", [-1, 2]), file("a.json", "[[1, 2], [3, 4]]"))).toMatchObject(expected);
  const fromNpy = await read(info("f32", [-1, 2]), file("a.npy", npy("<f4", "(2, 2)", floats)));
  expect(fromNpy.shape).toEqual([2, 2]);
  expect(Buffer.from(fromNpy.bytes)).toEqual(Buffer.from(raw));
  expect((await read(info("f32", [-1, 2]), file("a.raw", raw))).shape).toEqual([2, 2]);
  expect(tensorToJson(await read(info("bytes", [-1]), file("a.txt", "whole\nfile"))).data).toEqual(["whole\nfile"]);
});

test.each<[string, string | Uint8Array, string]>([
  ["type.npy", npy("<f8", "(2,)", Float64Array.of(1, 2)), "the file holds FP64"],
  ["order.npy", npy("<f4", "(1, 2)", Float32Array.of(1, 2), "True"), "Fortran order"],
  ["big.npy", npy(">f4", "(2,)", Float32Array.of(1, 2)), "its type '>f4' is none of"],
  ["short.npy", npy("<f4", "(1, 3)", Float32Array.of(1, 2)), "[1,3] of '<f4' does not take 8 bytes"],
  ["text.npy", "hello", "not an .npy file"],
  ["odd.raw", new Uint8Array(9), "9 raw bytes do not say which shape is meant"],
])("a wrong file: %s", async (name, content, message) => {
  expect(read(info("f32", [-1, 2]), file(name, content))).rejects.toThrow(message);
});

test("unknown, missing and doubled inputs name what is known", async () => {
  const infos = [info("f32", [1]), { ...info("bytes", [-1]), name: "texts" }];
  expect(readInputs(["text=a"], infos)).rejects.toThrow("the model has no input 'text', did you mean 'texts'?");
  expect(readInputs(["x=1"], infos)).rejects.toThrow("missing --input for texts (BYTES [-1])");
  expect(readInputs(["x=1", "x=2"], infos)).rejects.toThrow("input 'x' is given twice");
  expect(readInputs(["x"], infos)).rejects.toThrow("expected name=value or name=@file");
});

test("a table row shows the first values and how many there are", async () => {
  expect(tensorToRow(await read(info("i32", [-1]), "[1,2,3,4,5,6,7,8,9,10]"))).toEqual([
    "x",
    "INT32",
    "[10]",
    "1, 2, 3, 4, 5, 6, 7, 8, ... (10 values)",
  ]);
  const odd = { ...info("bytes", [1]), bytes: Uint8Array.of(2, 0, 0, 0, 0xff, 0xfe) };
  expect(tensorToJson(odd).data).toEqual(["base64://4="]);
});

// Entry signatures out of HLO protos that are put together here: layouts, tuples, aliases, and what is missing.

import { describe, expect, test } from "bun:test";
import { ProtoWriter } from "../protobuf.ts";
import { readProgramShape } from "./program-shape.ts";

const F32 = 11;
const TUPLE = 13;

function packed(...values: number[]): Uint8Array {
  return new Uint8Array(values);
}

function arrayShape(dims: number[], minorToMajor?: number[]): Uint8Array {
  const shape = new ProtoWriter().varint(2, F32).bytes(3, packed(...dims));
  if (minorToMajor) shape.bytes(5, new ProtoWriter().bytes(1, packed(...minorToMajor)).finish());
  return shape.finish();
}

/** HloModuleProtoWithConfig of a module with this program shape and these further fields. */
function program(
  parameters: Uint8Array[],
  result: Uint8Array,
  more: [field: number, value: Uint8Array][] = [],
): Uint8Array {
  const shape = new ProtoWriter();
  for (const parameter of parameters) shape.bytes(1, parameter);
  const module = new ProtoWriter().text(1, "name").bytes(4, shape.bytes(2, result).finish());
  for (const [field, value] of more) module.bytes(field, value);
  return new ProtoWriter().bytes(1, module.finish()).finish();
}

describe("layouts", () => {
  for (const [what, dims, minorToMajor, rowMajor] of [
    ["none given", [2, 3], undefined, true],
    ["last dimension fastest", [2, 3, 4], [2, 1, 0], true],
    ["first dimension fastest", [2, 3], [0, 1], false],
    ["a scalar", [], [], true],
  ] as const) {
    test(`${what}: ${rowMajor ? "row-major" : "not row-major"}`, () => {
      const shape = arrayShape([...dims], minorToMajor && [...minorToMajor]);
      expect(readProgramShape(program([shape], shape)).parameters).toEqual([{ type: F32, dims: [...dims], rowMajor }]);
    });
  }
});

test("a tuple result is its elements, another result is itself", () => {
  const element = arrayShape([5]);
  const tuple = new ProtoWriter().varint(2, TUPLE).bytes(4, element).bytes(4, element).finish();
  expect(readProgramShape(program([], tuple)).results).toHaveLength(2);
  expect(readProgramShape(program([], element)).results).toHaveLength(1);
  expect(readProgramShape(program([], new ProtoWriter().varint(2, TUPLE).finish())).results).toEqual([]);
});

test("parameters that may be overwritten, by alias or as donors, parameter 0 written as nothing", () => {
  const alias = new ProtoWriter().bytes(1, new ProtoWriter().varint(2, 3).finish()).bytes(1, packed()).finish();
  const donor = new ProtoWriter().bytes(1, new ProtoWriter().varint(1, 2).finish()).finish();
  const shape = arrayShape([1]);
  const bytes = program([shape, shape, shape, shape], shape, [
    [8, alias],
    [18, donor],
  ]);
  expect(readProgramShape(bytes).donatable).toEqual([0, 2, 3]);
});

test("a program without what we need is DATA_LOSS", () => {
  expect(() => readProgramShape(new Uint8Array(0))).toThrow(/no hlo_module/);
  const bare = new ProtoWriter().bytes(1, new ProtoWriter().text(1, "name").finish()).finish();
  expect(() => readProgramShape(bare)).toThrow(/no host_program_shape/);
});

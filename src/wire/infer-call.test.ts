// What makes a request a Call without knowing its model: every row of the checks, each with the words a client reads.

import { expect, test } from "bun:test";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { create, toBinary } from "@bufbuild/protobuf";
import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { ModelInferRequestSchema } from "../../proto/gen/grpc_service_pb.ts";
import { ServerError } from "../base/errors.ts";
import type { Call } from "../call/call.ts";
import { Chunks } from "../tensor/byte-source.ts";
import { encodeStrings } from "../tensor/strings.ts";
import { toCall } from "./infer-call.ts";
import { decodeInferRequest } from "./infer-request.ts";

type Request = MessageInitShape<typeof ModelInferRequestSchema>;

const TRANSPORT = { arrivalNs: 1, deadlineNs: 2, onCancel: () => {} };

function call(request: Request, pieceBytes = 7): Call {
  const bytes = toBinary(ModelInferRequestSchema, create(ModelInferRequestSchema, { modelName: "m", ...request }));
  const pieces: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += pieceBytes) pieces.push(bytes.subarray(at, at + pieceBytes));
  return toCall(decodeInferRequest(Chunks.from(pieces)), TRANSPORT);
}

function refusal(request: Request): string {
  try {
    call(request);
    return "accepted";
  } catch (thrown) {
    return thrown instanceof ServerError ? `${thrown.code} ${thrown.message}` : `${thrown}`;
  }
}

const fp32 = (shape: (number | bigint)[], name = "x") => ({ name, datatype: "FP32", shape: shape.map(BigInt) });
const strings = (shape: number[]) => ({ name: "x", datatype: "BYTES", shape: shape.map(BigInt) });
const text = (...words: string[]) => encodeStrings(words.map((word) => new TextEncoder().encode(word)));
const region = { shared_memory_region: { parameterChoice: { case: "stringParam", value: "r" } } } as const;

test("a Call has the request's fields, its transport, and its tensors' bytes", () => {
  const made = call({
    modelVersion: "7",
    id: "request-1",
    parameters: {
      timeout: { parameterChoice: { case: "int64Param", value: 5n } },
      sequence_id: { parameterChoice: { case: "uint64Param", value: 2n ** 63n } },
      unset: {},
    },
    inputs: [fp32([1, 2]), { ...strings([2]), name: "words" }],
    outputs: [{ name: "b" }, { name: "a", parameters: {} }],
    rawInputContents: [Uint8Array.of(0, 0, 128, 63, 0, 0, 0, 64), text("a", "")],
  });
  expect(made).toMatchObject({ modelName: "m", id: "request-1", requestedOutputs: ["b", "a"], ...TRANSPORT });
  expect([...made.parameters]).toEqual([
    ["timeout", 5n],
    ["sequence_id", 2n ** 63n],
  ]);
  expect(made.inputs.map(({ name, dtype, shape }) => ({ name, dtype, shape }))).toEqual([
    { name: "x", dtype: "f32", shape: [1, 2] },
    { name: "words", dtype: "bytes", shape: [2] },
  ]);
  expect(made.inputs.map(({ data }) => [...data.contiguous()])).toEqual([
    [0, 0, 128, 63, 0, 0, 0, 64],
    [...text("a", "")],
  ]);
});

test("raw and typed elements make the same bytes; a scalar is one element; an empty tensor needs no data", () => {
  const typed = call({ inputs: [{ ...fp32([2]), contents: { fp32Contents: [1, 2] } }] });
  expect([...typed.inputs[0]!.data.contiguous()]).toEqual([0, 0, 128, 63, 0, 0, 0, 64]);
  expect(call({ inputs: [fp32([])], rawInputContents: [new Uint8Array(4)] }).inputs[0]!.shape).toEqual([1]);
  for (const empty of [{ rawInputContents: [new Uint8Array(0)] }, {}, { contents: {} }]) {
    expect(call({ inputs: [fp32([0, 3])], ...empty }).inputs[0]).toMatchObject({
      shape: [0, 3],
      data: { byteLength: 0 },
    });
  }
});

test.each<[string, Request, string]>([
  [
    "fewer raw contents than inputs",
    { inputs: [fp32([1]), fp32([1], "y")], rawInputContents: [new Uint8Array(4)] },
    "INVALID_ARGUMENT model 'm': 1 raw_input_contents for 2 inputs, expected none or one an input",
  ],
  [
    "more raw contents than inputs",
    { rawInputContents: [new Uint8Array(4)] },
    "INVALID_ARGUMENT model 'm': 1 raw_input_contents for 0 inputs, expected none or one an input",
  ],
  ["an input twice", { inputs: [fp32([0]), fp32([0])] }, "INVALID_ARGUMENT model 'm': input 'x' is given twice"],
  [
    "an output twice",
    { outputs: [{ name: "y" }, { name: "z" }, { name: "y" }] },
    "INVALID_ARGUMENT model 'm': requested output 'y' is given twice",
  ],
  [
    "an unknown datatype",
    { inputs: [{ name: "x", datatype: "FP8", shape: [1n] }] },
    "INVALID_ARGUMENT model 'm', input 'x': unknown datatype 'FP8'",
  ],
  [
    "a datatype in lower case",
    { inputs: [{ name: "x", datatype: "fp32", shape: [1n] }] },
    "INVALID_ARGUMENT model 'm', input 'x': unknown datatype 'fp32'",
  ],
  [
    "no datatype",
    { inputs: [{ name: "x", shape: [1n] }] },
    "INVALID_ARGUMENT model 'm', input 'x': unknown datatype ''",
  ],
  [
    "both raw and typed data",
    { inputs: [{ ...fp32([1]), contents: { fp32Contents: [1] } }], rawInputContents: [new Uint8Array(4)] },
    "INVALID_ARGUMENT model 'm', input 'x': it has both contents and raw_input_contents, expected one of them",
  ],
  [
    "no data",
    { inputs: [fp32([1])] },
    "INVALID_ARGUMENT model 'm', input 'x': it has no data, expected contents or an entry of raw_input_contents",
  ],
  [
    "a negative extent",
    { inputs: [fp32([2, -1])], rawInputContents: [new Uint8Array(4)] },
    "INVALID_ARGUMENT model 'm', input 'x': shape [2,-1]: axis 2 is negative, expected 0 or more",
  ],
  [
    "a product beyond 2^53",
    { inputs: [fp32([2n ** 27n, 2n ** 27n])], rawInputContents: [new Uint8Array(0)] },
    "INVALID_ARGUMENT model 'm', input 'x': shape [134217728,134217728]: its bytes cannot be counted in 53 bits",
  ],
  [
    "a product that wraps to 0",
    { inputs: [fp32([2n ** 32n, 2n ** 32n])], rawInputContents: [new Uint8Array(0)] },
    "INVALID_ARGUMENT model 'm', input 'x': shape [4294967296,4294967296]: its bytes cannot be counted in 53 bits",
  ],
  [
    "bytes that overflow",
    { inputs: [fp32([2n ** 52n])], rawInputContents: [new Uint8Array(0)] },
    "INVALID_ARGUMENT model 'm', input 'x': shape [4503599627370496]: its bytes cannot be counted in 53 bits",
  ],
  [
    "an overflow beside a zero",
    { inputs: [fp32([2n ** 40n, 2n ** 40n, 0])], rawInputContents: [new Uint8Array(0)] },
    "INVALID_ARGUMENT model 'm', input 'x': shape [1099511627776,1099511627776,0]: its bytes cannot be counted in 53 bits",
  ],
  [
    "too few raw bytes",
    { inputs: [fp32([2])], rawInputContents: [new Uint8Array(7)] },
    "INVALID_ARGUMENT model 'm', input 'x': 7 raw bytes, expected 8 for FP32 [2]",
  ],
  [
    "too many raw bytes",
    { inputs: [fp32([0])], rawInputContents: [new Uint8Array(1)] },
    "INVALID_ARGUMENT model 'm', input 'x': 1 raw bytes, expected 0 for FP32 [0]",
  ],
  [
    "a huge shape of few bytes",
    { inputs: [fp32([2n ** 40n])], rawInputContents: [new Uint8Array(4)] },
    "INVALID_ARGUMENT model 'm', input 'x': 4 raw bytes, expected 4398046511104 for FP32 [1099511627776]",
  ],
  [
    "a huge shape of few strings",
    { inputs: [strings([2 ** 40])], rawInputContents: [text("a")] },
    "INVALID_ARGUMENT model 'm', input 'x': shape [1099511627776]: 1099511627776 BYTES elements, expected at most 1048576",
  ],
  [
    "more strings than bytes",
    { inputs: [strings([9])], rawInputContents: [text("a")] },
    "INVALID_ARGUMENT model 'm', input 'x': 5 raw bytes, 9 elements need at least 36",
  ],
  [
    "a string longer than its tensor",
    { inputs: [strings([2])], rawInputContents: [Uint8Array.of(9, 0, 0, 0, 65, 0, 0, 0)] },
    "INVALID_ARGUMENT model 'm', input 'x': element 0 of 2: its length prefix says 9 bytes, 4 are left",
  ],
  [
    "a string of 4 GiB",
    { inputs: [strings([1])], rawInputContents: [Uint8Array.of(255, 255, 255, 255)] },
    "INVALID_ARGUMENT model 'm', input 'x': element 0 of 1: its length prefix says 4294967295 bytes, 0 are left",
  ],
  [
    "a cut length prefix",
    { inputs: [strings([2])], rawInputContents: [Uint8Array.of(2, 0, 0, 0, 65, 66, 0, 0)] },
    "INVALID_ARGUMENT model 'm', input 'x': element 1 of 2: its length prefix is cut off",
  ],
  [
    "bytes after the strings",
    { inputs: [strings([1])], rawInputContents: [text("a", "b")] },
    "INVALID_ARGUMENT model 'm', input 'x': 10 raw bytes, its 1 elements take 5",
  ],
  [
    "an input in shared memory",
    { inputs: [{ ...fp32([1]), parameters: region }] },
    "UNIMPLEMENTED model 'm', input 'x': shared memory is not served; send and take tensors in the message",
  ],
  [
    "an output in shared memory",
    { inputs: [fp32([0])], outputs: [{ name: "y", parameters: region }] },
    "UNIMPLEMENTED model 'm', output 'y': shared memory is not served; send and take tensors in the message",
  ],
])("%s", (_name, request, message) => {
  expect(refusal(request)).toBe(message);
});

test("a long name is cut short in messages", () => {
  const name = "n".repeat(5000);
  expect(refusal({ modelName: name, inputs: [fp32([1])] }).length).toBeLessThan(300);
});

test("an extent of 2^63 - 1 is refused, not rounded", () => {
  const shape = new BinaryWriter()
    .tag(3, 0)
    .int64(2n ** 63n - 1n)
    .finish();
  const input = new BinaryWriter().tag(2, 2).string("INT8").raw(shape).finish();
  const bytes = new BinaryWriter().tag(5, 2).bytes(input).finish();
  expect(() => toCall(decodeInferRequest(Chunks.of(bytes)), TRANSPORT)).toThrow("cannot be counted in 53 bits");
});

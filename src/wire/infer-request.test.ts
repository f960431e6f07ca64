// The hand-written decoder says what the generated one says, over every encoding and every split; and it refuses
// whatever is malformed, with a message that finds the place.

import { expect, test } from "bun:test";
import { equals, fromBinary } from "@bufbuild/protobuf";
import {
  type InferParameter,
  InferTensorContentsSchema,
  type ModelInferRequest,
  ModelInferRequestSchema,
} from "../../proto/gen/grpc_service_pb.ts";
import { randomBytes, randomPieces, randomRequestBytes } from "../../tests/support/infer-messages.ts";
import { Rng } from "../../tests/support/rng.ts";
import { ServerError } from "../base/errors.ts";
import {
  REQUEST_FIELDS_MAX,
  REQUEST_PARAMETERS_MAX,
  REQUEST_TENSORS_MAX,
  WIRE_STRING_BYTES_MAX,
} from "../base/limits.ts";
import type { ParameterValue } from "../call/call.ts";
import { type ByteSource, Chunks } from "../tensor/byte-source.ts";
import { decodeInferRequest, type InferRequest } from "./infer-request.ts";

const SEED = Number(process.env.SEED ?? 20_261_121);

type ParameterMap = Map<string, ParameterValue>;

function parametersOf(generated: { [key: string]: InferParameter }): ParameterMap {
  const map: ParameterMap = new Map();
  for (const [key, { parameterChoice }] of Object.entries(generated)) {
    if (parameterChoice.case !== undefined) map.set(key, parameterChoice.value);
  }
  return map;
}

/** What both codecs are compared as; typed contents apart. */
function projectGenerated(message: ModelInferRequest) {
  return {
    modelName: message.modelName,
    modelVersion: message.modelVersion,
    id: message.id,
    parameters: parametersOf(message.parameters),
    inputs: message.inputs.map((input) => ({
      name: input.name,
      datatype: input.datatype,
      shape: input.shape.map(Number),
      parameters: parametersOf(input.parameters),
    })),
    outputs: message.outputs.map(({ name, parameters }) => ({ name, parameters: parametersOf(parameters) })),
    raw: message.rawInputContents.map((bytes) => Buffer.from(bytes).toString("hex")),
  };
}

function projectDecoded(request: InferRequest): ReturnType<typeof projectGenerated> {
  const { rawInputContents, inputs, outputs, ...rest } = request;
  return {
    ...rest,
    parameters: rest.parameters ?? new Map(),
    inputs: inputs.map(({ contents: _contents, parameters, ...input }) => ({
      ...input,
      parameters: parameters ?? new Map(),
    })),
    outputs: outputs.map(({ name, parameters }) => ({ name, parameters: parameters ?? new Map() })),
    raw: rawInputContents.map((bytes) => Buffer.from(bytes.contiguous()).toString("hex")),
  };
}

function expectSame(request: InferRequest, message: ModelInferRequest): void {
  expect(projectDecoded(request)).toEqual(projectGenerated(message));
  request.inputs.forEach(({ contents }, index) => {
    const merged = Buffer.concat(contents.map((piece) => piece.contiguous()));
    const generated = message.inputs[index]!.contents;
    const decoded = fromBinary(InferTensorContentsSchema, merged);
    if (generated) expect(equals(InferTensorContentsSchema, decoded, generated)).toBe(true);
    else expect(contents).toEqual([]);
  });
}

function isContents(piece: ByteSource): boolean {
  try {
    fromBinary(InferTensorContentsSchema, piece.contiguous());
    return true;
  } catch {
    return false;
  }
}

/** Runs `check` with a random generator whose seed a failure prints. */
function seeded(cases: number, check: (rng: Rng) => void): void {
  for (let index = 0; index < cases; index++) {
    const seed = SEED + index;
    try {
      check(new Rng(seed));
    } catch (thrown) {
      throw new Error(`SEED=${seed}`, { cause: thrown });
    }
  }
}

function decode(chunks: readonly Uint8Array[]): InferRequest {
  return decodeInferRequest(Chunks.from(chunks));
}

function refusal(bytes: Uint8Array | readonly number[]): string {
  try {
    decode([Uint8Array.from(bytes)]);
  } catch (thrown) {
    expect(thrown).toBeInstanceOf(ServerError);
    expect((thrown as ServerError).code).toBe("INVALID_ARGUMENT");
    return (thrown as ServerError).message;
  }
  return "decoded";
}

test("random requests, in random encodings and pieces, decode as the generated codec decodes them", () => {
  seeded(4000, (rng) => {
    const bytes = randomRequestBytes(rng);
    const message = fromBinary(ModelInferRequestSchema, bytes);
    expectSame(decode([bytes]), message);
    expectSame(decode(randomPieces(rng, bytes)), message);
  });
});

test("a request split at any byte, or at every byte, decodes the same", () => {
  seeded(20, (rng) => {
    const bytes = randomRequestBytes(rng);
    const whole = projectDecoded(decode([bytes]));
    for (let at = 1; at < bytes.length; at++) {
      expect(projectDecoded(decode([bytes.subarray(0, at), bytes.subarray(at)]))).toEqual(whole);
    }
    expect(projectDecoded(decode([...bytes].map((byte) => Uint8Array.of(byte))))).toEqual(whole);
  });
});

test("tensor bytes are views of the received bytes", () => {
  const bytes = Uint8Array.of(0x3a, 4, 1, 2, 3, 4);
  const raw = decode([bytes.subarray(0, 4), bytes.subarray(4)]).rawInputContents[0]!;
  expect(raw.chunks.map((chunk) => [...chunk])).toEqual([
    [1, 2],
    [3, 4],
  ]);
  for (const chunk of raw.chunks) expect(chunk.buffer).toBe(bytes.buffer);
});

test("a truncated request is refused exactly where the generated codec refuses it", () => {
  seeded(30, (rng) => {
    const bytes = randomRequestBytes(rng);
    for (let length = 0; length < bytes.length; length++) {
      const cut = bytes.subarray(0, length);
      let message: ModelInferRequest | undefined;
      try {
        message = fromBinary(ModelInferRequestSchema, cut);
      } catch {
        expect(refusal(cut)).toStartWith("malformed protobuf: ");
      }
      if (message) expectSame(decode([cut]), message);
    }
  });
});

test("damaged and random bytes are refused or decode as the generated codec decodes them", () => {
  let accepted = 0;
  seeded(4000, (rng) => {
    const bytes = rng.chance(0.2) ? randomBytes(rng, rng.below(60)) : randomRequestBytes(rng);
    for (let damage = 1 + rng.below(3); damage > 0 && bytes.length > 0; damage--) {
      bytes[rng.below(bytes.length)] = rng.chance(0.5) ? rng.below(256) : rng.pick([0, 0x7f, 0x80, 0xff]);
    }
    if (refusal(bytes) !== "decoded") return;
    const request = decode([bytes]);
    // Typed contents are decoded later, by typedToRaw, so damage inside them is not this decoder's to see.
    if (request.inputs.some(({ contents }) => !contents.every(isContents))) return;
    accepted++;
    expectSame(request, fromBinary(ModelInferRequestSchema, bytes));
  });
  expect(accepted).toBeGreaterThan(100);
});

test.each([
  [
    "a length beyond the message",
    [0x0a, 5, 1],
    "ModelInferRequest, field model_name (1) at byte 0: a length of 5 bytes, 1 are left in its message",
  ],
  [
    "a huge length",
    [0x3a, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f],
    "ModelInferRequest, field raw_input_contents (7) at byte 0: a length of 1099511627775 bytes, 0 are left in its message",
  ],
  [
    "a nested length beyond its message",
    [0x2a, 2, 0x0a, 9, 65, 65],
    "ModelInferRequest.InferInputTensor, field name (1) at byte 2: a length of 9 bytes, 0 are left in its message",
  ],
  [
    "a value that ends outside its message",
    [0x2a, 2, 0x18, 0x80, 1],
    "ModelInferRequest.InferInputTensor, field shape (3) at byte 2: the value runs past the end of its message",
  ],
  [
    "a packed value that ends outside its field",
    [0x2a, 5, 0x1a, 1, 0x80, 1, 0],
    "ModelInferRequest.InferInputTensor, field shape (3) at byte 2: the last packed value runs past the end of its field",
  ],
  ["a cut varint", [0x2a, 3, 0x0a, 1, 65, 0x80], "ModelInferRequest at byte 5: the message ends inside this value"],
  [
    "an endless varint",
    [0x48, ...new Array(11).fill(0xff), 0],
    "ModelInferRequest, field 9 at byte 0: a varint of more than 10 bytes",
  ],
  ["a tag of 36 bits", [0xff, 0xff, 0xff, 0xff, 0x7f], "ModelInferRequest at byte 0: a tag of more than 32 bits"],
  ["field 0", [0x00], "ModelInferRequest at byte 0: field number 0 does not exist"],
  [
    "a field's wrong wire type",
    [0x08, 1],
    "ModelInferRequest, field model_name (1) at byte 0: wire type 0 is not this field's",
  ],
  ["a wire type that does not exist", [0x4f], "ModelInferRequest, field 9 at byte 0: wire type 7 does not exist"],
  [
    "the end of a group that never began",
    [0x4c],
    "ModelInferRequest, field 9 at byte 0: wire type 4 ends a group that never began",
  ],
  ["a group without an end", [0x4b, 0x10, 1], "ModelInferRequest, field 9 at byte 0: a group does not end"],
  [
    "another group's end",
    [0x4b, 0x54],
    "ModelInferRequest, field 10 at byte 1: ends another group than the one it is in",
  ],
  [
    "groups without end",
    new Array(1000).fill(0x4b),
    "ModelInferRequest, field 9 at byte 100: groups nested deeper than 100",
  ],
  [
    "text that is not UTF-8",
    [0x0a, 2, 0xc3, 0x28],
    "ModelInferRequest, field model_name (1) at byte 0: the string is not valid UTF-8",
  ],
  [
    "a parameter's key",
    [0x22, 3, 0x0a, 1, 0xff],
    "ParametersEntry, field key (1) at byte 2: the string is not valid UTF-8",
  ],
  [
    "a parameter's value",
    [0x22, 4, 0x12, 2, 0x19, 0],
    "InferParameter, field string_param (3) at byte 4: wire type 1 is not this field's",
  ],
])("%s is refused with its place", (_name, bytes, message) => {
  expect(refusal(bytes)).toBe(`malformed protobuf: ${message}`);
});

test("a request of countless fields is refused at the first that is too much", () => {
  for (const field of [
    [0x0a, 0],
    [0x22, 0],
    [0x48, 1],
    [0x4b, 0x4c],
    [0x2a, 0],
  ]) {
    const bytes = new Uint8Array(field.length * (REQUEST_FIELDS_MAX + 1));
    for (let at = 0; at < bytes.length; at += field.length) bytes.set(field, at);
    expect(refusal(bytes)).toMatch(/more than (1024 inputs|1048576 fields)$/);
  }
});

test("a request of too many parts is refused at the first that is too much", () => {
  const many = (field: readonly number[], count: number) => new Array(count).fill(field).flat();
  expect(refusal(many([0x2a, 0], REQUEST_TENSORS_MAX))).toBe("decoded");
  for (const [tag, what] of [
    [0x2a, "inputs"],
    [0x32, "outputs"],
    [0x3a, "raw contents"],
  ] as const) {
    expect(refusal(many([tag, 0], REQUEST_TENSORS_MAX + 1))).toEndWith(`more than ${REQUEST_TENSORS_MAX} ${what}`);
  }
  expect(refusal([0x2a, ...[0xc8, 1], ...many([0x18, 1], 100)])).toEndWith("more than 64 axes");
  expect(refusal([0x2a, 68, ...many([0x2a, 2, 0x08, 1], 17)])).toEndWith("more than 16 pieces");
  const parameters = Array.from({ length: REQUEST_PARAMETERS_MAX + 1 }, (_, index) => [
    ...[0x22, 8, 0x0a, 2, index & 255 & 0x7f, index >> 7, 0x12, 2, 0x08, 1],
  ]);
  expect(refusal(parameters.slice(1).flat())).toBe("decoded");
  expect(refusal(parameters.flat())).toEndWith(
    `field parameters (4) at byte ${10 * REQUEST_PARAMETERS_MAX}: more than ${REQUEST_PARAMETERS_MAX} parameters`,
  );
  const long = new Uint8Array(WIRE_STRING_BYTES_MAX + 5).fill(65);
  long.set([0x0a, 0x81, 0x80, 0x40]);
  expect(refusal(long)).toEndWith(`a string of ${WIRE_STRING_BYTES_MAX + 1} bytes, expected at most 1048576`);
});

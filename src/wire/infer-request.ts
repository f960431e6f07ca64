// ModelInferRequest: bytes to plain fields, tensor bytes as views. Nothing is checked here but the encoding itself.
//
// Written by hand, since a request's decoding is on every call's path: the generated codec copies `bytes` fields, wants
// one piece, and builds reflective messages. It is the reference in tests, and names the fields in errors. What the
// fields mean is checked by infer-call.ts. Used by service/.

import {
  InferParameterSchema,
  ModelInferRequest_InferInputTensorSchema as InputSchema,
  ModelInferRequest_InferRequestedOutputTensorSchema as OutputSchema,
  ModelInferRequestSchema as RequestSchema,
} from "../../proto/gen/grpc_service_pb.ts";
import {
  CONTENTS_PIECES_MAX,
  REQUEST_FIELDS_MAX,
  REQUEST_PARAMETERS_MAX,
  REQUEST_TENSORS_MAX,
  TENSOR_RANK_MAX,
} from "../base/limits.ts";
import type { ParameterValue } from "../call/call.ts";
import type { ByteSource } from "../tensor/byte-source.ts";
import { type MessageNames, ProtobufReader } from "./protobuf-reader.ts";

type ParameterMap = Map<string, ParameterValue>;

export interface InferInput {
  name: string;
  datatype: string;
  /** Any int64; beyond 2^53 the nearest number. */
  shape: number[];
  parameters: ParameterMap | undefined;
  /** The encoded InferTensorContents, in the pieces that the message gave; typed-contents.ts reads them. */
  contents: ByteSource[];
}

export interface InferOutput {
  name: string;
  parameters: ParameterMap | undefined;
}

export interface InferRequest {
  modelName: string;
  modelVersion: string;
  id: string;
  parameters: ParameterMap | undefined;
  inputs: InferInput[];
  outputs: InferOutput[];
  rawInputContents: ByteSource[];
}

/**
 * Decodes an inference.ModelInferRequest; its tensor bytes stay where they are. Unknown fields are passed over.
 * Errors: INVALID_ARGUMENT for bytes that are not such a message, or one beyond the bounds of base/limits.ts.
 */
export function decodeInferRequest(bytes: ByteSource): InferRequest {
  const reader = new ProtobufReader(bytes, RequestSchema, REQUEST_FIELDS_MAX);
  const request: InferRequest = {
    modelName: "",
    modelVersion: "",
    id: "",
    parameters: undefined,
    inputs: [],
    outputs: [],
    rawInputContents: [],
  };
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    switch (tag) {
      case 0x0a:
        request.modelName = reader.string();
        break;
      case 0x12:
        request.modelVersion = reader.string();
        break;
      case 0x1a:
        request.id = reader.string();
        break;
      case 0x22:
        request.parameters = readParameter(reader, request.parameters);
        break;
      case 0x2a:
        bound(reader, request.inputs, "inputs");
        request.inputs.push(readInput(reader));
        break;
      case 0x32:
        bound(reader, request.outputs, "outputs");
        request.outputs.push(readOutput(reader));
        break;
      case 0x3a:
        bound(reader, request.rawInputContents, "raw contents");
        request.rawInputContents.push(reader.bytes());
        break;
      default:
        reader.skipUnknown();
    }
  }
  return request;
}

function bound(reader: ProtobufReader, list: readonly unknown[], what: string): void {
  if (list.length >= REQUEST_TENSORS_MAX) reader.fail(`more than ${REQUEST_TENSORS_MAX} ${what}`);
}

function readInput(reader: ProtobufReader): InferInput {
  const input: InferInput = { name: "", datatype: "", shape: [], parameters: undefined, contents: [] };
  reader.enter(InputSchema);
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    switch (tag) {
      case 0x0a:
        input.name = reader.string();
        break;
      case 0x12:
        input.datatype = reader.string();
        break;
      case 0x18:
        readExtent(reader, input.shape);
        break;
      case 0x1a: {
        const end = reader.packedEnd();
        while (reader.offset < end) readExtent(reader, input.shape);
        reader.closePacked(end);
        break;
      }
      case 0x22:
        input.parameters = readParameter(reader, input.parameters);
        break;
      case 0x2a: {
        const piece = reader.bytes();
        if (input.contents.length >= CONTENTS_PIECES_MAX) reader.fail(`more than ${CONTENTS_PIECES_MAX} pieces`);
        if (piece.byteLength > 0) input.contents.push(piece);
        break;
      }
      default:
        reader.skipUnknown();
    }
  }
  return input;
}

function readExtent(reader: ProtobufReader, shape: number[]): void {
  if (shape.length >= TENSOR_RANK_MAX) reader.fail(`more than ${TENSOR_RANK_MAX} axes`);
  shape.push(reader.int64AsNumber());
}

function readOutput(reader: ProtobufReader): InferOutput {
  const output: InferOutput = { name: "", parameters: undefined };
  reader.enter(OutputSchema);
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    switch (tag) {
      case 0x0a:
        output.name = reader.string();
        break;
      case 0x12:
        output.parameters = readParameter(reader, output.parameters);
        break;
      default:
        reader.skipUnknown();
    }
  }
  return output;
}

// A map entry is a message of its own on the wire, but has no descriptor.
const ENTRY: MessageNames = {
  typeName: "inference.ParametersEntry",
  fields: [
    { number: 1, name: "key" },
    { number: 2, name: "value" },
  ],
};

/** Reads one entry of a map<string, InferParameter>; the last entry of a key wins. */
function readParameter(reader: ProtobufReader, map: ParameterMap = new Map()): ParameterMap {
  reader.enter(ENTRY);
  let key = "";
  let value: ParameterValue | undefined;
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === 0x0a) key = reader.string();
    else if (tag === 0x12) value = readParameterValue(reader, value);
    else reader.skipUnknown();
  }
  // A parameter whose choice is not set says nothing.
  if (value === undefined) map.delete(key);
  else map.set(key, value);
  if (map.size > REQUEST_PARAMETERS_MAX) reader.fail(`more than ${REQUEST_PARAMETERS_MAX} parameters`);
  return map;
}

function readParameterValue(reader: ProtobufReader, before: ParameterValue | undefined): ParameterValue | undefined {
  let value = before;
  reader.enter(InferParameterSchema);
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    switch (tag) {
      case 0x08:
        value = reader.bool();
        break;
      case 0x10:
        value = reader.int64();
        break;
      case 0x1a:
        value = reader.string();
        break;
      case 0x21:
        value = reader.double();
        break;
      case 0x28:
        value = reader.uint64();
        break;
      default:
        reader.skipUnknown();
    }
  }
  return value;
}

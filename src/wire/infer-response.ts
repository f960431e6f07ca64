// A Reply as an encoded inference.ModelInferResponse: one allocation for everything but the tensors, which go out as
// views of the bytes that the Reply holds.
//
// Outputs are always raw, raw_output_contents in the order of outputs; model_version and parameters stay empty.
// Small replies are copied into one piece, since a view costs more than a copy of a few bytes. Used by service/.

import { ServerError } from "../base/errors.ts";
import { PROTOBUF_MESSAGE_BYTES_MAX, REPLY_COPY_BYTES_MAX } from "../base/limits.ts";
import type { CallTensor, Reply } from "../call/call.ts";
import { wireName } from "../tensor/dtype.ts";

/** Tags of ModelInferResponse (number << 3 | 2), and of its InferOutputTensor. */
const MODEL_NAME = 0x0a;
const ID = 0x1a;
const OUTPUTS = 0x2a;
const RAW_OUTPUT_CONTENTS = 0x32;
const TENSOR_NAME = 0x0a;
const TENSOR_DATATYPE = 0x12;
const TENSOR_SHAPE = 0x1a;

/** An encoded reply: `chunks` in order are the message. `views` says whether some of them are the Reply's own bytes. */
export interface EncodedReply {
  readonly chunks: readonly Uint8Array[];
  readonly views: boolean;
}

/**
 * Encodes a Reply. The chunks are valid until reply.release() unless `views` is false.
 * Errors: RESOURCE_EXHAUSTED when the message would pass protobuf's 2 GiB.
 */
export function encodeInferResponse(reply: Reply): EncodedReply {
  const { outputs } = reply;
  const bodies = outputs.map(tensorBodySize);
  let headerBytes = stringFieldSize(reply.modelName) + stringFieldSize(reply.id);
  let tensorBytes = 0;
  outputs.forEach(({ data }, index) => {
    headerBytes += 1 + varintSize(bodies[index]!) + bodies[index]! + 1 + varintSize(data.byteLength);
    tensorBytes += data.byteLength;
  });
  if (headerBytes + tensorBytes > PROTOBUF_MESSAGE_BYTES_MAX) {
    throw new ServerError(
      "RESOURCE_EXHAUSTED",
      `a reply of ${headerBytes + tensorBytes} bytes, a message holds at most ${PROTOBUF_MESSAGE_BYTES_MAX}`,
    );
  }

  const copied = tensorBytes <= REPLY_COPY_BYTES_MAX;
  const header = Buffer.allocUnsafe(copied ? headerBytes + tensorBytes : headerBytes);
  let at = writeString(header, 0, MODEL_NAME, reply.modelName);
  at = writeString(header, at, ID, reply.id);
  outputs.forEach((output, index) => {
    at = writeTensor(header, at, output, bodies[index]!);
  });
  if (copied) {
    for (const { data } of outputs) {
      at = writeLength(header, at, RAW_OUTPUT_CONTENTS, data.byteLength);
      data.copyTo(header, at);
      at += data.byteLength;
    }
    return { chunks: [header], views: false };
  }

  const chunks: Uint8Array[] = [];
  let start = 0;
  for (const { data } of outputs) {
    at = writeLength(header, at, RAW_OUTPUT_CONTENTS, data.byteLength);
    chunks.push(header.subarray(start, at));
    for (const chunk of data.chunks) chunks.push(chunk);
    start = at;
  }
  return { chunks, views: true };
}

function writeTensor(target: Buffer, at: number, { name, dtype, shape }: CallTensor, bodySize: number): number {
  at = writeLength(target, at, OUTPUTS, bodySize);
  at = writeString(target, at, TENSOR_NAME, name);
  at = writeString(target, at, TENSOR_DATATYPE, wireName(dtype)!);
  if (shape.length === 0) return at;
  at = writeLength(target, at, TENSOR_SHAPE, packedSize(shape));
  for (const extent of shape) at = writeVarint(target, at, extent);
  return at;
}

function tensorBodySize({ name, dtype, shape }: CallTensor): number {
  const datatype = wireName(dtype);
  if (datatype === undefined) {
    throw new ServerError("INTERNAL", `output '${name}' is ${dtype}, which KServe V2 has no name for`);
  }
  const packed = packedSize(shape);
  return stringFieldSize(name) + stringFieldSize(datatype) + (packed === 0 ? 0 : 1 + varintSize(packed) + packed);
}

function packedSize(shape: readonly number[]): number {
  let size = 0;
  for (const extent of shape) size += varintSize(extent);
  return size;
}

/** Bytes of a whole number from 0 to 2^53 as a varint. */
function varintSize(value: number): number {
  let size = 1;
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) size++;
  return size;
}

function writeVarint(target: Buffer, at: number, value: number): number {
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) target[at++] = (rest % 0x80) | 0x80;
  target[at++] = rest;
  return at;
}

function writeLength(target: Buffer, at: number, tag: number, length: number): number {
  target[at] = tag;
  return writeVarint(target, at + 1, length);
}

/** proto3 leaves an empty string out. */
function stringFieldSize(text: string): number {
  if (text.length === 0) return 0;
  const size = Buffer.byteLength(text);
  return 1 + varintSize(size) + size;
}

function writeString(target: Buffer, at: number, tag: number, text: string): number {
  if (text.length === 0) return at;
  at = writeLength(target, at, tag, Buffer.byteLength(text));
  return at + target.write(text, at);
}

// From a decoded ModelInferRequest to a Call: every check that needs no model, in the order clients can rely on.
//
// A Call's tensors have a known dtype, a shape whose product is exact, and exactly the bytes that both ask for, so that
// no later stage looks at a length again. What needs the model (declared names, ranks, extents) is infer/'s.
// Used by service/, after it has found the model.

import { ServerError } from "../base/errors.ts";
import { STRING_ELEMENTS_MAX } from "../base/limits.ts";
import { type Call, type CallTensor, NO_PARAMETERS } from "../call/call.ts";
import { type ByteSource, Chunks } from "../tensor/byte-source.ts";
import { type Dtype, fromWire, sizeOf } from "../tensor/dtype.ts";
import { elementCount, formatShape } from "../tensor/shape.ts";
import type { InferInput, InferRequest } from "./infer-request.ts";
import { checkStrings } from "./string-lengths.ts";
import { typedToRaw } from "./typed-contents.ts";

const SHARED_MEMORY = "shared_memory_region";
const NO_BYTES = Chunks.of(new Uint8Array(0));

/** What the transport knows of a request. */
export type Transport = Pick<Call, "arrivalNs" | "deadlineNs" | "onCancel">;

/**
 * The Call of a request. Raw tensor bytes stay views onto the received message.
 * Errors: UNIMPLEMENTED for a tensor in shared memory; INVALID_ARGUMENT naming model, tensor, value and expectation:
 * raw contents that are not one an input, an input or output given twice, an unknown datatype, both raw and typed data
 * or neither, a shape with a negative extent or an overflowing product, bytes or elements that differ from the shape.
 */
export function toCall(request: InferRequest, transport: Transport): Call {
  const { modelName, inputs, outputs, rawInputContents: raw } = request;
  refuseSharedMemory(request);
  if (raw.length > 0 && raw.length !== inputs.length) {
    throw invalid(
      `model ${quote(modelName)}: ${raw.length} raw_input_contents for ${inputs.length} inputs, expected none or one an input`,
    );
  }
  refuseDuplicates(modelName, "input", inputs);
  const tensors = inputs.map((input, index) => toTensor(modelName, input, raw[index]));
  refuseDuplicates(modelName, "requested output", outputs);
  return {
    modelName,
    id: request.id,
    parameters: request.parameters ?? NO_PARAMETERS,
    inputs: tensors,
    requestedOutputs: outputs.map(({ name }) => name),
    ...transport,
  };
}

/** Names a tensor in messages. Made only when there is one to write: it costs as much as the checks. */
function label(modelName: string, { name }: InferInput): string {
  return `model ${quote(modelName)}, input ${quote(name)}`;
}

function toTensor(modelName: string, input: InferInput, raw: ByteSource | undefined): CallTensor {
  const dtype = fromWire(input.datatype);
  if (!dtype) throw invalid(`${label(modelName, input)}: unknown datatype ${quote(input.datatype)}`);
  if (raw && input.contents.length > 0) {
    throw invalid(`${label(modelName, input)}: it has both contents and raw_input_contents, expected one of them`);
  }
  // A scalar may come as one element of rank 0 or 1: from here on it is of rank 1, which infer/ takes for both.
  const shape = input.shape.length === 0 ? [1] : input.shape;
  const count = checkedCount(modelName, input, shape, dtype);
  return { name: input.name, dtype, shape, data: checkedData(modelName, input, raw, dtype, shape, count) };
}

function checkedCount(modelName: string, input: InferInput, shape: readonly number[], dtype: Dtype): number {
  const refuse = (reason: string) => invalid(`${label(modelName, input)}: shape ${formatShape(shape)}: ${reason}`);
  const axis = shape.findIndex((extent) => extent < 0);
  if (axis >= 0) throw refuse(`axis ${axis + 1} is negative, expected 0 or more`);
  const count = elementCount(shape);
  // An element takes 1 byte at least, a string 4.
  if (count === undefined || count > Number.MAX_SAFE_INTEGER / Math.max(sizeOf(dtype), 4)) {
    throw refuse("its bytes cannot be counted in 53 bits");
  }
  if (dtype === "bytes" && count > STRING_ELEMENTS_MAX) {
    throw refuse(`${count} BYTES elements, expected at most ${STRING_ELEMENTS_MAX}`);
  }
  return count;
}

function checkedData(
  modelName: string,
  input: InferInput,
  raw: ByteSource | undefined,
  dtype: Dtype,
  shape: readonly number[],
  count: number,
): ByteSource {
  if (!raw) {
    if (input.contents.length > 0) return typedToRaw(input.contents, dtype, count, label(modelName, input));
    if (count === 0) return NO_BYTES;
    throw invalid(`${label(modelName, input)}: it has no data, expected contents or an entry of raw_input_contents`);
  }
  if (dtype === "bytes") checkStrings(raw, count, label(modelName, input));
  else if (raw.byteLength !== count * sizeOf(dtype)) {
    const expected = `expected ${count * sizeOf(dtype)} for ${input.datatype} ${formatShape(shape)}`;
    throw invalid(`${label(modelName, input)}: ${raw.byteLength} raw bytes, ${expected}`);
  }
  return raw;
}

// Said before anything else: a client that uses shared memory sends no raw contents for such inputs, and what would be
// wrong with them otherwise is not its mistake.
function refuseSharedMemory({ modelName, inputs, outputs }: InferRequest): void {
  const refuse = (kind: string, name: string) => {
    throw new ServerError(
      "UNIMPLEMENTED",
      `model ${quote(modelName)}, ${kind} ${quote(name)}: shared memory is not served; send and take tensors in the message`,
    );
  };
  for (const { name, parameters } of inputs) if (parameters?.has(SHARED_MEMORY)) refuse("input", name);
  for (const { name, parameters } of outputs) if (parameters?.has(SHARED_MEMORY)) refuse("output", name);
}

function refuseDuplicates(modelName: string, kind: string, tensors: readonly { readonly name: string }[]): void {
  if (tensors.length < 2) return;
  const names = new Set<string>();
  for (const { name } of tensors) {
    if (names.has(name)) throw invalid(`model ${quote(modelName)}: ${kind} ${quote(name)} is given twice`);
    names.add(name);
  }
}

// Names come from outside and go into messages: long enough to recognise, short enough for a trailer.
const QUOTED_LENGTH_MAX = 128;

/** A name from outside in quotes, cut short when it is long. */
export function quote(name: string): string {
  return name.length > QUOTED_LENGTH_MAX ? `'${name.slice(0, QUOTED_LENGTH_MAX)}…'` : `'${name}'`;
}

function invalid(message: string): ServerError {
  return new ServerError("INVALID_ARGUMENT", message);
}

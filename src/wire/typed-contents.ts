// InferTensorContents: a tensor's elements as protobuf lists, turned into the bytes that a raw tensor would have.
//
// Read only once the shape is known, so the result's size is known before anything is allocated, and bounded by what
// the message holds. A packed FP32 or FP64 list already is those bytes and stays where it is. Used by infer-call.ts.

import { InferTensorContentsSchema as ContentsSchema } from "../../proto/gen/grpc_service_pb.ts";
import { ServerError } from "../base/errors.ts";
import { TYPED_TENSOR_BYTES_MAX } from "../base/limits.ts";
import { type ByteSource, Chunks } from "../tensor/byte-source.ts";
import { type Dtype, sizeOf, wireName } from "../tensor/dtype.ts";
import { FIXED32, FIXED64, LENGTH, ProtobufReader, VARINT } from "./protobuf-reader.ts";

interface FieldRow {
  readonly number: number;
  readonly name: string;
  /** Wire type of one element outside a packed list. */
  readonly wireType: number;
}

const BOOL: FieldRow = { number: 1, name: "bool_contents", wireType: VARINT };
const INT: FieldRow = { number: 2, name: "int_contents", wireType: VARINT };
const INT64: FieldRow = { number: 3, name: "int64_contents", wireType: VARINT };
const UINT: FieldRow = { number: 4, name: "uint_contents", wireType: VARINT };
const UINT64: FieldRow = { number: 5, name: "uint64_contents", wireType: VARINT };
const FP32: FieldRow = { number: 6, name: "fp32_contents", wireType: FIXED32 };
const FP64: FieldRow = { number: 7, name: "fp64_contents", wireType: FIXED64 };
const BYTES: FieldRow = { number: 8, name: "bytes_contents", wireType: LENGTH };
const FIELDS = [BOOL, INT, INT64, UINT, UINT64, FP32, FP64, BYTES];

/** The list that a dtype's elements belong to; a dtype that is not here has none and must come raw. */
const FIELD_OF: Readonly<Partial<Record<Dtype, FieldRow>>> = {
  bool: BOOL,
  i8: INT,
  i16: INT,
  i32: INT,
  i64: INT64,
  u8: UINT,
  u16: UINT,
  u32: UINT,
  u64: UINT64,
  f32: FP32,
  f64: FP64,
  bytes: BYTES,
};

const PREFIX_BYTES = 4;

/** Fields that need hold no element: unknown ones, empty lists. */
const OTHER_FIELDS_MAX = 1024;

/**
 * The raw bytes of a tensor of `count` elements given as typed contents.
 * `pieces` is the encoded message, as InferInput.contents; `tensor` names the tensor in messages.
 * Errors: INVALID_ARGUMENT when the list is another dtype's, its length is not `count`, an element does not fit the
 * dtype, or the encoding is malformed; RESOURCE_EXHAUSTED above TYPED_TENSOR_BYTES_MAX.
 */
export function typedToRaw(pieces: readonly ByteSource[], dtype: Dtype, count: number, tensor: string): ByteSource {
  const contents = pieces.length === 1 ? pieces[0]! : Chunks.from(pieces.flatMap((piece) => [...piece.chunks]));
  const field = FIELD_OF[dtype];
  if (!field) throw invalid(`${tensor}: ${wireName(dtype)} has no typed contents, send it in raw_input_contents`);
  // Each element takes at least a byte on the wire, so a shape that lies is found before its bytes are allocated.
  if (count > contents.byteLength) {
    throw invalid(`${tensor}: its shape has ${count} elements, ${field.name} holds fewer`);
  }
  const reader = new ProtobufReader(contents, ContentsSchema, count + OTHER_FIELDS_MAX);
  if (field === FP32 || field === FP64) return readFloats(reader, contents.byteLength, field, dtype, count, tensor);
  const bytes = dtype === "bytes" ? contents.byteLength + count * PREFIX_BYTES : count * sizeOf(dtype);
  if (bytes > TYPED_TENSOR_BYTES_MAX) {
    throw new ServerError(
      "RESOURCE_EXHAUSTED",
      `${tensor}: typed contents make ${bytes} bytes, at most ${TYPED_TENSOR_BYTES_MAX}: send it in raw_input_contents`,
    );
  }
  if (field === BYTES) return readStrings(reader, count, bytes, tensor);
  return readVarints(reader, field, dtype, count, tensor);
}

function readVarints(reader: ProtobufReader, field: FieldRow, dtype: Dtype, count: number, tensor: string): ByteSource {
  const store = elementStore(reader, dtype, count, tensor);
  let index = 0;
  const readOne = () => {
    if (index >= count) throw wrongCount(tensor, field, count, "more");
    store.read(index++);
  };
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === ((field.number << 3) | VARINT)) readOne();
    else if (tag === ((field.number << 3) | LENGTH)) {
      const end = reader.packedEnd();
      while (reader.offset < end) readOne();
      reader.closePacked(end);
    } else skipOther(reader, tag, field, tensor);
  }
  if (index < count) throw wrongCount(tensor, field, count, index);
  return Chunks.of(store.bytes);
}

/** The array that a dtype's elements go to, and how to read one into it. */
function elementStore(
  reader: ProtobufReader,
  dtype: Dtype,
  count: number,
  tensor: string,
): { readonly bytes: Uint8Array; readonly read: (index: number) => void } {
  if (dtype === "i64" || dtype === "u64") {
    const words = new Uint32Array(count * 2);
    return { bytes: new Uint8Array(words.buffer), read: (index) => reader.writeVarint64(words, index * 2) };
  }
  if (dtype === "bool") {
    const bytes = new Uint8Array(count);
    return {
      bytes,
      read: (index) => {
        bytes[index] = reader.bool() ? 1 : 0;
      },
    };
  }
  const unsigned = dtype === "u8" || dtype === "u16" || dtype === "u32";
  const values = integerArray(dtype, count);
  return {
    bytes: new Uint8Array(values.buffer),
    read: (index) => {
      const value = unsigned ? reader.int32() >>> 0 : reader.int32();
      values[index] = value;
      // The array keeps the low bits only; what comes back different did not fit.
      if (values[index] !== value) throw invalid(`${tensor}: element ${index} is ${value}, beyond ${wireName(dtype)}`);
    },
  };
}

function integerArray(dtype: Dtype, count: number) {
  switch (dtype) {
    case "i8":
      return new Int8Array(count);
    case "i16":
      return new Int16Array(count);
    case "i32":
      return new Int32Array(count);
    case "u8":
      return new Uint8Array(count);
    case "u16":
      return new Uint16Array(count);
    default:
      return new Uint32Array(count);
  }
}

function readFloats(
  reader: ProtobufReader,
  contentsBytes: number,
  field: FieldRow,
  dtype: Dtype,
  count: number,
  tensor: string,
): ByteSource {
  const size = sizeOf(dtype);
  const total = count * size;
  let whole: ByteSource | undefined;
  let copy: Uint8Array | undefined;
  let filled = 0;
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    let run: ByteSource;
    if (tag === ((field.number << 3) | field.wireType)) run = reader.fixed(size);
    else if (tag === ((field.number << 3) | LENGTH)) run = reader.bytes();
    else {
      skipOther(reader, tag, field, tensor);
      continue;
    }
    if (run.byteLength % size !== 0) reader.fail(`${run.byteLength} bytes, expected a multiple of ${size}`);
    if (filled + run.byteLength > total) throw wrongCount(tensor, field, count, "more");
    if (run.byteLength === total) whole = run;
    else if (total <= contentsBytes) {
      copy ??= new Uint8Array(total);
      run.copyTo(copy, filled);
    }
    filled += run.byteLength;
  }
  if (filled < total) throw wrongCount(tensor, field, count, filled / size);
  return whole ?? Chunks.of(copy ?? new Uint8Array(0));
}

function readStrings(reader: ProtobufReader, count: number, bytesMax: number, tensor: string): ByteSource {
  const bytes = new Uint8Array(bytesMax);
  const view = new DataView(bytes.buffer);
  let index = 0;
  let position = 0;
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag !== ((BYTES.number << 3) | LENGTH)) {
      skipOther(reader, tag, BYTES, tensor);
      continue;
    }
    if (index++ >= count) throw wrongCount(tensor, BYTES, count, "more");
    const element = reader.bytes();
    view.setUint32(position, element.byteLength, true);
    element.copyTo(bytes, position + PREFIX_BYTES);
    position += PREFIX_BYTES + element.byteLength;
  }
  if (index < count) throw wrongCount(tensor, BYTES, count, index);
  return Chunks.of(bytes.subarray(0, position));
}

/** Passes over a field that is not the dtype's; another list with elements in it is the client's mistake. */
function skipOther(reader: ProtobufReader, tag: number, expected: FieldRow, tensor: string): void {
  const other = FIELDS.find(({ number }) => number === tag >>> 3);
  if (!other || other === expected || ((tag & 7) !== LENGTH && (tag & 7) !== other.wireType)) {
    reader.skipUnknown();
    return;
  }
  const packed = other !== BYTES && (tag & 7) === LENGTH;
  if (packed && reader.bytes().byteLength === 0) return;
  throw invalid(`${tensor}: it is given in ${other.name}, its datatype's elements belong in ${expected.name}`);
}

function wrongCount(tensor: string, field: FieldRow, count: number, received: number | "more"): ServerError {
  return invalid(`${tensor}: its shape has ${count} elements, ${field.name} holds ${received}`);
}

function invalid(message: string): ServerError {
  return new ServerError("INVALID_ARGUMENT", message);
}

// Tensors as hooks see them: typed arrays by dtype; and the check of what a hook returns.
//
// A hook is code that we do not own, so nothing it returns is believed: each fault is a message that names the tensor,
// what was expected and what was there. Runs on the hook thread, called by hook.thread.ts.

import type { Tensor } from "../api.ts";
import { messageOf } from "../base/errors.ts";
import { REQUEST_TENSORS_MAX, TENSOR_RANK_MAX } from "../base/limits.ts";
import { Chunks } from "../tensor/byte-source.ts";
import { DTYPE_NAMES, type Dtype, isDtype, sizeOf } from "../tensor/dtype.ts";
import { elementCount, formatShape, type Shape } from "../tensor/shape.ts";
import { decodeStrings, encodeStrings } from "../tensor/strings.ts";
import type { SentTensor } from "./messages.ts";

const EXTENTS = "whole extents from 0 whose product stays below 2^53";

type FixedDtype = Exclude<Dtype, "bytes">;

const ARRAYS = {
  bool: Uint8Array,
  u8: Uint8Array,
  u16: Uint16Array,
  u32: Uint32Array,
  u64: BigUint64Array,
  i8: Int8Array,
  i16: Int16Array,
  i32: Int32Array,
  i64: BigInt64Array,
  f16: Uint16Array,
  f32: Float32Array,
  f64: Float64Array,
  bf16: Uint16Array,
  f8_e5m2: Uint8Array,
  f8_e4m3: Uint8Array,
} as const satisfies Record<FixedDtype, unknown>;

/** The tensors of an order for a hook: views of what was sent. Throws Error for BYTES whose lengths lie. */
export function openTensors(sent: readonly SentTensor[]): Tensor[] {
  return sent.map(
    ({ name, dtype, shape, bytes }) => ({ name, dtype, shape, data: open(name, dtype, shape, bytes) }) as Tensor,
  );
}

function open(name: string, dtype: Dtype, shape: Shape, bytes: ArrayBuffer): Tensor["data"] {
  if (dtype !== "bytes") return new ARRAYS[dtype](bytes);
  try {
    return decodeStrings(Chunks.of(new Uint8Array(bytes)), elementCount(shape) ?? 0);
  } catch (thrown) {
    throw new Error(`tensor '${name}': ${messageOf(thrown)}`);
  }
}

/**
 * What a hook returned, checked and copied for sending. Throws Error with the first fault: not an array, a name that is
 * missing or given twice, an unknown dtype, a shape that is none, data of another type, or another number of elements.
 */
export function closeTensors(returned: unknown): SentTensor[] {
  if (!Array.isArray(returned)) throw new Error(`expected an array of tensors, received ${describe(returned)}`);
  if (!(returned.length <= REQUEST_TENSORS_MAX)) {
    throw new Error(`expected at most ${REQUEST_TENSORS_MAX} tensors, received ${returned.length}`);
  }
  const made = new Map<string, SentTensor>();
  // By index: a hole is a fault like any other, and what an array says of itself (map, an iterator) is the hook's.
  for (let index = 0; index < returned.length; index++) {
    const sent = close(returned[index], index);
    if (made.has(sent.name)) throw new Error(`tensor '${sent.name}': expected once, received twice`);
    made.set(sent.name, sent);
  }
  return [...made.values()];
}

function close(tensor: unknown, index: number): SentTensor {
  if (typeof tensor !== "object" || tensor === null) {
    throw new Error(`tensor ${index}: expected {name, dtype, shape, data}, received ${describe(tensor)}`);
  }
  const { name, dtype, shape, data } = tensor as Record<keyof Tensor, unknown>;
  if (typeof name !== "string" || name === "") {
    throw new Error(`tensor ${index}: name: expected a string, received ${describe(name)}`);
  }
  const expect = (what: string, expected: string, received: string): Error =>
    new Error(`tensor '${name}': ${what}: expected ${expected}, received ${received}`);
  if (typeof dtype !== "string" || !isDtype(dtype))
    throw expect("dtype", `one of ${DTYPE_NAMES.join(", ")}`, describe(dtype));
  if (!Array.isArray(shape)) throw expect("shape", EXTENTS, describe(shape));
  if (!(shape.length <= TENSOR_RANK_MAX)) throw expect("shape", `at most ${TENSOR_RANK_MAX} axes`, `${shape.length}`);
  // Copied before it is looked at: what crosses to the main thread is a plain array of numbers, whatever the hook made.
  const extents: Shape = Array.from(shape as Shape);
  const count = elementCount(extents);
  if (count === undefined) throw expect("shape", EXTENTS, formatShape(extents));
  const elements = `${count} elements for shape ${formatShape(extents)}`;
  if (dtype === "bytes") {
    if (!Array.isArray(data)) throw expect("data", "an array of Uint8Array (bytes)", describe(data));
    if (data.length !== count) throw expect("data", elements, `${data.length}`);
    const odd = data.findIndex((string) => !(string instanceof Uint8Array));
    if (odd >= 0) throw expect(`data[${odd}]`, "Uint8Array", describe(data[odd]));
    return { name, dtype, shape: extents, bytes: encodeStrings(data).buffer as ArrayBuffer };
  }
  const array = ARRAYS[dtype];
  if (!(data instanceof array)) throw expect("data", `${array.name} (${dtype})`, describe(data));
  if (data.length !== count) {
    const detached = data.buffer instanceof ArrayBuffer && data.buffer.detached;
    throw expect("data", elements, detached ? "a detached buffer" : `${data.length}`);
  }
  const bytes = new Uint8Array(count * sizeOf(dtype));
  bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  return { name, dtype, shape: extents, bytes: bytes.buffer };
}

/** What a value is, in a word or two. */
function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value === "string") return `'${value}'`;
  if (typeof value !== "object") return `${typeof value} ${String(value)}`;
  return value.constructor?.name || "object";
}

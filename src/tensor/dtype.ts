// The element types, one row each: what a manifest, the wire, a safetensors file, PJRT, XLA and Triton call them.
//
// A new dtype is one row here. `size` is bytes an element; BYTES (KServe strings) has no fixed size and exists only
// on the client's side. f8_e4m3 is the FN variant. Used wherever a tensor has a type.

interface DtypeRow {
  /** Bytes an element; 0 for `bytes`. */
  readonly size: number;
  /** KServe V2 name; undefined where the protocol has none (executable-only dtypes). */
  readonly wire: string | undefined;
  /** safetensors header name. */
  readonly safetensors: string | undefined;
  /** PJRT_Buffer_Type of pjrt_c_api.h; 0 (INVALID) for `bytes`. */
  readonly pjrt: number;
  /** xla.PrimitiveType of xla_data.proto. */
  readonly xla: number;
  /** inference.DataType of Triton's model_config.proto. */
  readonly triton: number;
}

function row(
  size: number,
  wire: string | undefined,
  safetensors: string | undefined,
  pjrt: number,
  xla: number,
  triton: number,
): DtypeRow {
  return { size, wire, safetensors, pjrt, xla, triton };
}

export const DTYPES = {
  bool: row(1, "BOOL", "BOOL", 1, 1, 1),
  i8: row(1, "INT8", "I8", 2, 2, 6),
  i16: row(2, "INT16", "I16", 3, 3, 7),
  i32: row(4, "INT32", "I32", 4, 4, 8),
  i64: row(8, "INT64", "I64", 5, 5, 9),
  u8: row(1, "UINT8", "U8", 6, 6, 2),
  u16: row(2, "UINT16", "U16", 7, 7, 3),
  u32: row(4, "UINT32", "U32", 8, 8, 4),
  u64: row(8, "UINT64", "U64", 9, 9, 5),
  f16: row(2, "FP16", "F16", 10, 10, 10),
  f32: row(4, "FP32", "F32", 11, 11, 11),
  f64: row(8, "FP64", "F64", 12, 12, 12),
  bf16: row(2, "BF16", "BF16", 13, 16, 14),
  f8_e5m2: row(1, undefined, "F8_E5M2", 16, 19, 0),
  f8_e4m3: row(1, undefined, "F8_E4M3", 17, 20, 0),
  bytes: row(0, "BYTES", undefined, 0, 0, 13),
} as const satisfies Record<string, DtypeRow>;

/** A manifest's token for an element type. */
export type Dtype = keyof typeof DTYPES;

export const DTYPE_NAMES = Object.keys(DTYPES) as Dtype[];

function indexBy(key: "wire" | "safetensors" | "xla"): ReadonlyMap<string | number, Dtype> {
  const index = new Map<string | number, Dtype>();
  for (const name of DTYPE_NAMES) {
    const value = (DTYPES[name] as DtypeRow)[key];
    if (value !== undefined && value !== 0) index.set(value, name);
  }
  return index;
}

const byWire = indexBy("wire");
const bySafetensors = indexBy("safetensors");
const byXla = indexBy("xla");

export function isDtype(token: string): token is Dtype {
  return Object.hasOwn(DTYPES, token);
}

/** Bytes an element; 0 for `bytes`. */
export function sizeOf(dtype: Dtype): number {
  return DTYPES[dtype].size;
}

/** The KServe V2 name, e.g. FP32; undefined for the executable-only dtypes. */
export function wireName(dtype: Dtype): string | undefined {
  return (DTYPES[dtype] as DtypeRow).wire;
}

/** The dtype with this KServe V2 name; undefined when there is none. */
export function fromWire(name: string): Dtype | undefined {
  return byWire.get(name);
}

export function fromSafetensors(name: string): Dtype | undefined {
  return bySafetensors.get(name);
}

/** The dtype of an xla.PrimitiveType; undefined for those that we do not serve. */
export function fromXla(type: number): Dtype | undefined {
  return byXla.get(type);
}

// NumPy's .npy files, as far as tensors go to a server: format versions 1 to 3, little-endian, C order.
//
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html. Used by tensor-input.ts.

import type { Dtype } from "../tensor/dtype.ts";
import { byteCount, formatShape } from "../tensor/shape.ts";

const MAGIC = "\x93NUMPY";

/** NumPy's type strings; `|` where byte order does not matter. */
const DTYPES: Readonly<Record<string, Dtype>> = {
  "|b1": "bool",
  "|i1": "i8",
  "<i2": "i16",
  "<i4": "i32",
  "<i8": "i64",
  "|u1": "u8",
  "<u2": "u16",
  "<u4": "u32",
  "<u8": "u64",
  "<f2": "f16",
  "<f4": "f32",
  "<f8": "f64",
};

export interface NpyArray {
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

/** Throws RangeError that says what is wrong with the file, or what of the format is not read here. */
export function parseNpy(file: Uint8Array): NpyArray {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  if (file.byteLength < 12 || Buffer.from(file.subarray(0, 6)).toString("latin1") !== MAGIC) {
    throw new RangeError("it is not an .npy file");
  }
  const wide = file[6]! > 1;
  const start = wide ? 12 : 10;
  const end = start + (wide ? view.getUint32(8, true) : view.getUint16(8, true));
  const header = Buffer.from(file.subarray(start, end)).toString("latin1");
  const descr = /'descr':\s*'([^']*)'/.exec(header)?.[1];
  const order = /'fortran_order':\s*(True|False)/.exec(header)?.[1];
  const extents = /'shape':\s*\(([^)]*)\)/.exec(header)?.[1];
  if (end > file.byteLength || descr === undefined || order === undefined || extents === undefined) {
    throw new RangeError("its .npy header can't be read");
  }
  const shape = extents.split(",").flatMap((extent) => (extent.trim() === "" ? [] : Number(extent)));
  const dtype = DTYPES[descr];
  if (!dtype) throw new RangeError(`its type '${descr}' is none of ${Object.keys(DTYPES).join(", ")}`);
  if (order === "True" && shape.length > 1)
    throw new RangeError("it is in Fortran order: save it with numpy.ascontiguousarray");
  const bytes = file.subarray(end);
  if (byteCount(dtype, shape) !== bytes.byteLength) {
    throw new RangeError(`${formatShape(shape)} of '${descr}' does not take ${bytes.byteLength} bytes`);
  }
  return { dtype, shape, bytes };
}

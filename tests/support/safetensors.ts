// Writes small safetensors files for tests: the tensors in the order given, packed from offset 0, as the format wants.
//
// The header can be replaced, so that a test can make a file that lies. The server only reads this format, in
// src/bundle/. Used by bundles.ts and by tests of weights.

/** One tensor of a file: `dtype` as safetensors spells it (F32, I64, BF16, ...), `data` its bytes, row-major. */
export interface FileTensor {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data: ArrayBufferView;
}

export interface SafetensorsOptions {
  /** `__metadata__`: strings only, as the format has it. A list of names goes in as JSON under `argument_order`. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** Changes the header before it is written, to make a file that lies about its tensors. */
  readonly tamper?: (header: Record<string, unknown>) => Record<string, unknown>;
}

/** The bytes of a safetensors file. The header is padded with spaces to a multiple of 8, as the format's own writer does. */
export function safetensorsFile(
  tensors: Readonly<Record<string, FileTensor>>,
  options: SafetensorsOptions = {},
): Uint8Array<ArrayBuffer> {
  let header: Record<string, unknown> = options.metadata ? { __metadata__: options.metadata } : {};
  let offset = 0;
  for (const [name, { dtype, shape, data }] of Object.entries(tensors)) {
    header[name] = { dtype, shape, data_offsets: [offset, offset + data.byteLength] };
    offset += data.byteLength;
  }
  header = options.tamper?.(header) ?? header;

  const json = new TextEncoder().encode(JSON.stringify(header));
  const headerBytes = Math.ceil(json.length / 8) * 8;
  const file = new Uint8Array(8 + headerBytes + offset);
  new DataView(file.buffer).setBigUint64(0, BigInt(headerBytes), true);
  file.fill(0x20, 8, 8 + headerBytes);
  file.set(json, 8);
  let at = 8 + headerBytes;
  for (const { data } of Object.values(tensors)) {
    file.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), at);
    at += data.byteLength;
  }
  return file;
}

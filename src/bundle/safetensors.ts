// The header of a safetensors file, checked against lies before anybody reads a tensor by it.
//
// A file is u64 header length, a JSON header, then the data. Tensors lie in the data without gap or overlap and cover it
// exactly (https://huggingface.co/docs/safetensors/index#format). Reads the header only. Used by weights.ts.

import type { Issue } from "../base/errors.ts";
import { identify, kindOf, readRange } from "../base/files.ts";
import { SAFETENSORS_HEADER_BYTES_MAX } from "../base/limits.ts";
import { type Dtype, fromSafetensors } from "../tensor/dtype.ts";
import { byteCount, formatShape } from "../tensor/shape.ts";
import { gitLfsPointer, kindInWords } from "./content.ts";
import { cut, Field } from "./fields.ts";
import { repeatedKeys } from "./json-keys.ts";

export interface FileTensor {
  /** undefined for an element type that we do not serve; such a tensor may only lie there. */
  readonly dtype: Dtype | undefined;
  /** As the file spells it. */
  readonly dtypeName: string;
  readonly shape: readonly number[];
  /** From the file's first byte. */
  readonly fileOffset: number;
  readonly byteLength: number;
}

export interface SafetensorsHeader {
  readonly tensors: ReadonlyMap<string, FileTensor>;
  readonly metadata: ReadonlyMap<string, string>;
}

/** Reads and checks the header of the file at `path`, which messages call `label`. undefined when it has issues. */
export function readSafetensors(path: string, label: string, issues: Issue[]): SafetensorsHeader | undefined {
  const file = new Field(undefined, label, issues);
  const fileBytes = identify(path)?.byteLength;
  if (fileBytes === undefined) return file.refuse("a safetensors file", "no such file");
  const kind = kindOf(path);
  if (kind !== "file") return file.refuse("a safetensors file", kindInWords(kind));
  const head = readRange(path, 0, 64);
  if (head.byteLength < 8)
    return file.refuse("a safetensors file, which has at least 8 bytes", `${head.byteLength} bytes`);
  const pointer = gitLfsPointer(head);
  if (pointer) return file.refuse("a safetensors file", pointer);

  const headerBytes = Number(new DataView(head.buffer, head.byteOffset).getBigUint64(0, true));
  const room = Math.min(fileBytes - 8, SAFETENSORS_HEADER_BYTES_MAX);
  if (headerBytes > room) {
    return file.refuse(
      `a header of at most ${room} bytes`,
      `a header length of ${headerBytes}, in a file of ${fileBytes}`,
    );
  }
  const header = readRange(path, 8, headerBytes);
  if (header.byteLength < headerBytes)
    return file.refuse(`a header of ${headerBytes} bytes`, "a file that just became shorter");
  return parseHeader(header, fileBytes - 8 - headerBytes, label, issues);
}

/** Checks a header against the `dataBytes` that follow it. undefined when it has issues. */
export function parseHeader(
  header: Uint8Array,
  dataBytes: number,
  label: string,
  issues: Issue[],
): SafetensorsHeader | undefined {
  const before = issues.length;
  const root = new Field(parseJson(header, label, issues), label, issues);
  if (!root.present || !root.mapping("a header that is a JSON object")) return undefined;
  const metadata = readMetadata(root.get("__metadata__"));
  const tensors = new Map<string, FileTensor>();
  for (const name of Object.keys(root.value as object)) {
    if (name === "__metadata__") continue;
    const tensor = readTensor(root.get(name), 8 + header.byteLength, dataBytes);
    if (tensor) tensors.set(name, tensor);
  }
  // Where a tensor was refused, the rest can't cover the data.
  if (issues.length === before) checkCoverage(root, tensors, 8 + header.byteLength, dataBytes);
  return issues.length === before ? { tensors, metadata } : undefined;
}

function parseJson(header: Uint8Array, label: string, issues: Issue[]): unknown {
  const file = new Field(undefined, label, issues);
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(header);
    if (!text.startsWith("{")) return file.refuse("a header that begins with '{'", `'${cut(text.slice(0, 8))}'`);
    const value: unknown = JSON.parse(text);
    const repeated = repeatedKeys(text);
    if (repeated.length === 0) return value;
    return file.refuse(
      "each name once in the header",
      repeated
        .slice(0, 8)
        .map((key) => `'${cut(key)}' again`)
        .join(", "),
    );
  } catch (thrown) {
    // A SyntaxError of the parser, a TypeError of the decoder, or a RangeError for nesting without end.
    return file.refuse("a header of JSON in UTF-8", cut(String(thrown)));
  }
}

function readMetadata(field: Field): Map<string, string> {
  const mapping = field.present ? field.mapping("a mapping of strings to strings") : undefined;
  const keys = Object.keys(mapping ?? {});
  return new Map(keys.map((key) => [key, field.get(key).string("a string, as all metadata") ?? ""]));
}

function readTensor(entry: Field, dataStart: number, dataBytes: number): FileTensor | undefined {
  if (!entry.mapping("a tensor: {dtype, shape, data_offsets}")) return undefined;
  const dtypeName = entry.get("dtype").string("a dtype, e.g. 'F32'");
  const shape = readSizes(entry.get("shape"), "a list of sizes");
  const offsets = entry.get("data_offsets");
  const range = readSizes(offsets, "[begin, end]");
  if (dtypeName === undefined || shape === undefined || range === undefined) return undefined;
  const [begin, end] = range;
  if (begin === undefined || end === undefined || range.length > 2 || end < begin) {
    return offsets.refuse("[begin, end] with begin <= end", formatShape(range));
  }
  if (end > dataBytes) {
    return offsets.refuse(`an end within the file's ${dataBytes} bytes of data (is it truncated?)`, String(end));
  }
  const dtype = fromSafetensors(dtypeName);
  const expected = dtype && byteCount(dtype, shape);
  if (dtype && expected === undefined)
    return entry.get("shape").refuse("a size in bytes below 2^53", formatShape(shape));
  if (dtype && expected !== end - begin) {
    return offsets.refuse(`${expected} bytes, as ${dtypeName} ${formatShape(shape)} has`, `${end - begin} bytes`);
  }
  return { dtype, dtypeName, shape, fileOffset: dataStart + begin, byteLength: end - begin };
}

function readSizes(field: Field, what: string): number[] | undefined {
  const items = field.list(what);
  const sizes = items?.map((item) => item.integer(0, Number.MAX_SAFE_INTEGER));
  return sizes?.every((size) => size !== undefined) ? sizes : undefined;
}

/** The tensors lie one after the other from the first byte of data to its last. */
function checkCoverage(
  root: Field,
  tensors: ReadonlyMap<string, FileTensor>,
  dataStart: number,
  dataBytes: number,
): void {
  const inOrder = [...tensors].sort(([, a], [, b]) => a.fileOffset - b.fileOffset || a.byteLength - b.byteLength);
  let end = 0;
  for (const [name, { fileOffset, byteLength }] of inOrder) {
    const begin = fileOffset - dataStart;
    if (begin !== end) {
      const what = begin < end ? "an overlap with the tensor before it" : "a gap after the tensor before it";
      root.get(name).get("data_offsets").refuse(`a begin of ${end}`, `${begin}: ${what}`);
    }
    end = Math.max(end, begin + byteLength);
  }
  if (end !== dataBytes) root.refuse(`${end} bytes of data, where the last tensor ends`, `${dataBytes} bytes`);
}

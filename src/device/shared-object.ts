// Whether a file is a whole 64-bit shared object for this machine, told from its headers before it is loaded.
//
// The dynamic linker maps a file as its headers say and dies of SIGBUS where a truncated one ends, so a plugin is
// checked here first. Everything else that can be wrong with a shared object is an error of dlopen, not a signal.
// Source: System V ABI, chapter 4 (ELF-64 header, program headers). Used by plugins.ts.

import { identify, readRange } from "../base/files.ts";

const ELF_HEADER_BYTES = 64;
const PROGRAM_HEADER_BYTES = 56;
const ELF_MAGIC = 0x464c457f;
const CLASS_64 = 2;
const LITTLE_ENDIAN = 1;
const TYPE_SHARED_OBJECT = 3;
const MACHINES: Readonly<Record<string, number>> = { x64: 62, arm64: 183 };
const PROGRAM_HEADERS_MAX = 256;

/** Why the file can't be a shared object for this machine; undefined when it looks like one. */
export function sharedObjectFault(path: string): string | undefined {
  const identity = identify(path);
  if (!identity) return "no such file";
  const header = viewOf(readRange(path, 0, ELF_HEADER_BYTES));
  if (header.byteLength < ELF_HEADER_BYTES || header.getUint32(0, true) !== ELF_MAGIC) return "not a shared library";
  if (header.getUint8(4) !== CLASS_64 || header.getUint8(5) !== LITTLE_ENDIAN) return "not a 64-bit shared library";
  if (header.getUint16(16, true) !== TYPE_SHARED_OBJECT) return "an ELF file, but not a shared library";
  if (header.getUint16(18, true) !== MACHINES[process.arch])
    return `a shared library of another machine than ${process.arch}`;
  const offset = Number(header.getBigUint64(32, true));
  const count = header.getUint16(56, true);
  if (header.getUint16(54, true) !== PROGRAM_HEADER_BYTES || count === 0 || count > PROGRAM_HEADERS_MAX) {
    return "a damaged shared library (program headers)";
  }
  const headers = viewOf(readRange(path, offset, count * PROGRAM_HEADER_BYTES));
  if (headers.byteLength < count * PROGRAM_HEADER_BYTES) return "a truncated shared library";
  for (let at = 0; at < headers.byteLength; at += PROGRAM_HEADER_BYTES) {
    const end = headers.getBigUint64(at + 8, true) + headers.getBigUint64(at + 32, true);
    if (end > BigInt(identity.byteLength)) return "a truncated shared library";
  }
  return undefined;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

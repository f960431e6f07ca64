// The libc functions that this folder wraps, opened once a thread, and errno as an exception.
//
// Nothing but this folder calls libc. Sizes and offsets are numbers up to 2^53. The name is glibc's; musl has another
// soname, and XLA plugins need glibc anyway. Used by the files beside it.

import { FFIType, type Pointer, read } from "bun:ffi";
import { ServerError, type StatusCode } from "../../src/base/errors.ts";
import { openLibrary } from "../library.ts";
import type { Address } from "../memory.ts";

export const libc = openLibrary("libc.so.6", {
  // As an integer, MAP_FAILED is -1; as a pointer it would be 2^64 - 1, which no number holds.
  mmap: { args: ["ptr", "u64", "i32", "i32", "i32", "i64"], returns: FFIType.i64_fast },
  munmap: { args: ["ptr", "u64"], returns: "i32" },
  madvise: { args: ["ptr", "u64", "i32"], returns: "i32" },
  posix_memalign: { args: ["ptr", "u64", "u64"], returns: "i32" },
  free: { args: ["ptr"], returns: "void" },
  setenv: { args: ["ptr", "ptr", "i32"], returns: "i32" },
  unsetenv: { args: ["ptr"], returns: "i32" },
  getenv: { args: ["ptr"], returns: "ptr" },
  strlen: { args: ["ptr"], returns: FFIType.u64_fast },
  labs: { args: ["i64"], returns: "i64" },
  __errno_location: { args: [], returns: "ptr" },
  strerror: { args: ["i32"], returns: "cstring" },
});

export const ERRNO = { EAGAIN: 11, ENOMEM: 12 } as const;

/** A C function that does nothing with its arguments (labs), for callbacks that C may call from any thread. */
export const doNothing = (libc.labs as unknown as { readonly ptr: Address }).ptr;

/** The error number of the call just made in this thread. */
export function errno(): number {
  return read.i32(libc.__errno_location() as Pointer, 0);
}

/** `what: <the system's words>`; RESOURCE_EXHAUSTED when memory ran out. */
export function posixError(what: string, number: number): ServerError {
  const code: StatusCode = number === ERRNO.ENOMEM ? "RESOURCE_EXHAUSTED" : "INTERNAL";
  return new ServerError(code, `${what}: ${libc.strerror(number)} (errno ${number})`);
}

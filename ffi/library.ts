// Opening shared libraries and calling functions by address, with errors that say what is wrong with the file.
//
// A library stays open for the life of the process: plugins start threads of their own, and unloading code that runs is a
// crash. Function addresses are process-wide, so that any thread may call them. Used by ffi/pjrt, ffi/posix, ffi/cuda.

import { CFunction, dlopen, type FFIFunction, type Pointer } from "bun:ffi";
import { messageOf, ServerError } from "../src/base/errors.ts";
import type { Address } from "./memory.ts";

/**
 * Opens the library `path` (a name without a slash is looked up by the dynamic linker) and finds `symbols` in it.
 * Throws FAILED_PRECONDITION when it can't be loaded or lacks a symbol, with the linker's reason.
 */
export function openLibrary<const S extends Record<string, FFIFunction>>(path: string, symbols: S) {
  try {
    return dlopen(path, symbols).symbols;
  } catch (thrown) {
    throw new ServerError("FAILED_PRECONDITION", `cannot load ${path}: ${messageOf(thrown)}`, { cause: thrown });
  }
}

/** A PJRT API function: one pointer to its Args struct in, a PJRT_Error pointer out (null: no error). */
export type ArgsFunction = (args: Address) => Address | null;

/** The function at `address`, taking one pointer and returning one. Making it costs microseconds, calling it nanoseconds. */
export function pointerFunction(address: Address): ArgsFunction {
  return CFunction({ ptr: address as number as Pointer, args: ["ptr"], returns: "ptr" }) as unknown as ArgsFunction;
}

/** The function at `address`, taking one pointer and returning nothing. */
export function voidFunction(address: Address): (args: Address) => void {
  return CFunction({ ptr: address as number as Pointer, args: ["ptr"], returns: "void" }) as unknown as (
    args: Address,
  ) => void;
}

// The environment that native libraries see. Changing process.env does not reach C, and XLA reads C's.
//
// To be called before a plugin loads, and from one thread: setenv is not safe against a concurrent getenv. Used by
// whoever starts a device: XLA_FLAGS is removed, NVIDIA_TF32_OVERRIDE set.

import type { Pointer } from "bun:ffi";
import { type Address, Arena, textAt } from "../memory.ts";
import { errno, libc, posixError } from "./libc.ts";

/** The variable as C sees it, or undefined. */
export function nativeVariable(name: string): string | undefined {
  using arena = new Arena();
  const value = libc.getenv(pointer(arena.text(name)));
  return value === null ? undefined : textAt(value as number as Address, Number(libc.strlen(value)));
}

export function setNativeVariable(name: string, value: string): void {
  using arena = new Arena();
  if (libc.setenv(pointer(arena.text(name)), pointer(arena.text(value)), 1) !== 0) {
    throw posixError(`setting the environment variable ${name}`, errno());
  }
}

export function removeNativeVariable(name: string): void {
  using arena = new Arena();
  if (libc.unsetenv(pointer(arena.text(name))) !== 0) {
    throw posixError(`removing the environment variable ${name}`, errno());
  }
}

function pointer(text: { address: Address }): Pointer {
  return text.address as number as Pointer;
}

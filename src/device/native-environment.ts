// What XLA may see of the environment: not XLA_FLAGS, and a quiet log level.
//
// XLA aborts the process on a flag in XLA_FLAGS that it does not know, so the variable goes, with a warning, and flags
// travel in compile options. Its start-up messages are not in our log's format; warnings still come.
// To be called before a plugin is loaded, on the main thread, by every process that loads one.

import { nativeVariable, removeNativeVariable, setNativeVariable } from "../../ffi/posix/environment.ts";

const LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL";
const WARNINGS_AND_ABOVE = "1";

/** Returns the XLA_FLAGS that were taken away, if any. */
export function prepareNativeEnvironment(): string | undefined {
  if (nativeVariable(LOG_LEVEL) === undefined) setNativeVariable(LOG_LEVEL, WARNINGS_AND_ABOVE);
  const flags = nativeVariable("XLA_FLAGS");
  if (flags === undefined) return undefined;
  removeNativeVariable("XLA_FLAGS");
  // What child processes inherit is this copy, not C's.
  delete process.env.XLA_FLAGS;
  return flags;
}

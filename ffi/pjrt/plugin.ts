// Loading a PJRT plugin: a shared library with GetPjrtApi, checked and initialised once a process.
//
// A file that is missing, not a library, not a plugin, or too old is one clear FAILED_PRECONDITION that names the file.
// Plugins stay loaded. XLA_FLAGS must be gone from C's environment before (posix/environment.ts): XLA aborts on an unknown
// flag there. Used by device/ on the main thread; other threads take the API by address.

import { messageOf, ServerError } from "../../src/base/errors.ts";
import { openLibrary } from "../library.ts";
import type { Address } from "../memory.ts";
import { PjrtApi } from "./api.ts";
import { type AttributeValue, decodeNamedValues } from "./named-values.ts";

// PJRT_Extension_Type in order; 16 and later are newer than 0.81 and come from the header of 0.113.
const EXTENSION_NAMES = [
  "Gpu_Custom_Call",
  "Profiler",
  "Custom_Partitioner",
  "Stream",
  "Layouts",
  "FFI",
  "MemoryDescriptions",
  "Triton",
  "RawBuffer",
  "PhaseCompile",
  "Example",
  "Unknown",
  "CrossHostTransfers",
  "ExecutableMetadata",
  "Callback",
  "HostAllocator",
  "TpuTopology",
  "TpuExecutable",
  "Megascale",
  "Shardings",
  "AbiVersion",
  "Collectives",
  "MultiSlice",
  "HostMemoryAllocator",
  "XlaTransform",
  "ExecuteChain",
];

/** Loads and initialises the plugin at `path`. Loading the same file again gives the same API. */
export function loadPlugin(path: string): PjrtApi {
  const { GetPjrtApi } = openLibrary(path, { GetPjrtApi: { args: [], returns: "ptr" } });
  const address = GetPjrtApi();
  if (!address)
    throw new ServerError("FAILED_PRECONDITION", `${path}: GetPjrtApi returned null, so it is no PJRT plugin`);
  let api: PjrtApi;
  try {
    api = PjrtApi.at(address as number as Address);
  } catch (thrown) {
    throw new ServerError("FAILED_PRECONDITION", `${path}: ${messageOf(thrown)}`, { cause: thrown });
  }
  api.calls.PJRT_Plugin_Initialize.run();
  return api;
}

/** What the plugin says of itself: `xla_version`, `stablehlo_current_version`, `stablehlo_minimum_version`, ... */
export function pluginAttributes(api: PjrtApi): Record<string, AttributeValue> {
  const call = api.calls.PJRT_Plugin_Attributes;
  call.run();
  return decodeNamedValues(call.args.attributes, call.args.num_attributes);
}

/** The names of the extensions that the plugin offers; an unknown one by its number. */
export function pluginExtensions(api: PjrtApi): string[] {
  return api.extensions().map((type) => EXTENSION_NAMES[type] ?? String(type));
}

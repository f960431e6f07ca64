// The content key of an executable: everything that decides what the compiler makes, and where it runs.
//
// Equal keys mean the same executable, in memory and on the disk; whatever is left out here would let a stale or foreign
// executable run. Used by pjrt.ts before it looks anywhere.

import { availableParallelism } from "node:os";
import { isFile, readBytesSync, sha256 } from "../base/files.ts";

/** What a key covers beside the module and its options: the same for all modules of a device. */
export interface CompileEnvironment {
  readonly pluginSha256: string;
  readonly clientOptions: Readonly<Record<string, unknown>>;
  readonly platform: string;
  /** Of the platform's libraries and driver, as the plugin words it. */
  readonly platformVersion: string;
  readonly deviceKind: string;
  /** Such as CUDA's compute capability. */
  readonly deviceAttributes: Readonly<Record<string, unknown>>;
  /** The host's instruction set extensions: code for missing ones would raise SIGILL. */
  readonly cpuFlags: string;
  /** XLA splits CPU work by the number of threads that it sees at compile time. */
  readonly cpuThreads: string;
}

// Raise it when what is stored, or how it is compiled, changes in a way that the fields above do not show.
const FORMAT_VERSION = 2;

/** The host's part of a CompileEnvironment. */
export function describeHost(environment: Readonly<Record<string, string | undefined>>): {
  readonly cpuFlags: string;
  readonly cpuThreads: string;
} {
  const asked = [environment.PJRT_NPROC, environment.NPROC].map((value) => value ?? "").join(",");
  return { cpuFlags: cpuFlags(), cpuThreads: `${asked},${availableParallelism()}` };
}

function cpuFlags(): string {
  if (!isFile("/proc/cpuinfo")) return process.arch;
  const text = new TextDecoder().decode(readBytesSync("/proc/cpuinfo"));
  // x86 says `flags`, arm64 `Features`; all cores of a machine that we serve on have the same.
  return /^(?:flags|Features)\s*:\s*(.*)$/m.exec(text)?.[1] ?? process.arch;
}

/** SHA-256 in hexadecimal. The module is hashed off this thread, since it may carry megabytes of constants. */
export async function executableKey(
  environment: CompileEnvironment,
  module: Uint8Array,
  compileOptions: Uint8Array,
): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", module as Uint8Array<ArrayBuffer>));
  const parts = [FORMAT_VERSION, environment, digest.toHex(), compileOptions.toHex()];
  return sha256(new TextEncoder().encode(JSON.stringify(parts)));
}

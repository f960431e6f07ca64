// How many file descriptors this process may have open.
//
// Invariant: read anew at each call, for whoever needs it once at its start. Called by worker/ to bound connections.

import { readBytesSync } from "./files.ts";

/** The soft limit of open files (RLIMIT_NOFILE); Infinity where there is none, or the system does not tell. */
export function descriptorsMax(): number {
  try {
    return parseDescriptorsMax(new TextDecoder().decode(readBytesSync("/proc/self/limits")));
  } catch {
    return Number.POSITIVE_INFINITY; // not Linux
  }
}

/** As `descriptorsMax`, from the text of /proc/self/limits. */
export function parseDescriptorsMax(limits: string): number {
  const soft = /^Max open files\s+(\d+)/m.exec(limits)?.[1];
  return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft);
}

// How much memory this process takes, as the operating system counts it.
//
// Anonymous memory is what the process itself made: heaps, buffers, private pages. Mapped files (weights, the plugin)
// are left out, since the system takes those back when it needs to. Used by hooks/ and metrics.

import { readBytesSync } from "./files.ts";

const KIB = 1024;

/** Bytes of anonymous resident memory; all resident memory where the system does not tell them apart. */
export function residentAnonymousBytes(): number {
  if (process.platform !== "linux") return process.memoryUsage.rss();
  const status = new TextDecoder("latin1").decode(readBytesSync("/proc/self/status"));
  const kib = /^RssAnon:\s+(\d+) kB$/m.exec(status)?.[1];
  return kib === undefined ? process.memoryUsage.rss() : Number(kib) * KIB;
}

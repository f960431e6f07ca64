// The series that every process has: processor time, memory, file descriptors, the engine's heap.
//
// Names are those of Prometheus's own client libraries. What the system does not tell is left out. Called by a scrape.

import { systemClock } from "../base/clock.ts";
import { identify, isFile, readBytesSync } from "../base/files.ts";
import type { Family } from "./prometheus-text.ts";

const US_PER_S = 1e6;
const startSeconds = systemClock.wallMs() / 1000 - process.uptime();

export function processFamilies(): Family[] {
  const { user, system } = process.cpuUsage();
  const memory = process.memoryUsage();
  const families: Family[] = [
    counter("process_cpu_seconds_total", "User and system processor time, all threads.", (user + system) / US_PER_S),
    gauge("process_start_time_seconds", "Start of the process since the Unix epoch.", startSeconds),
    gauge("process_resident_memory_bytes", "Resident memory.", memory.rss),
    gauge("runtime_heap_bytes", "The main thread's JavaScript heap in use.", memory.heapUsed),
  ];
  const anonymous = anonymousBytes();
  if (anonymous !== undefined) {
    families.push(gauge("process_anonymous_memory_bytes", "Resident memory that no file backs.", anonymous));
  }
  // Linux gives the number of open descriptors as this directory's size since 6.2, and 0 before.
  const descriptors = identify("/proc/self/fd")?.byteLength;
  if (descriptors) families.push(gauge("process_open_fds", "Open file descriptors.", descriptors));
  return families;
}

function anonymousBytes(): number | undefined {
  const path = "/proc/self/status";
  if (!isFile(path)) return undefined;
  const kilobytes = /^RssAnon:\s+(\d+) kB$/m.exec(new TextDecoder().decode(readBytesSync(path)))?.[1];
  return kilobytes === undefined ? undefined : Number(kilobytes) * 1024;
}

function gauge(name: string, help: string, value: number): Family {
  return { name, type: "gauge", help, samples: [{ labels: {}, value }] };
}

function counter(name: string, help: string, value: number): Family {
  return { name, type: "counter", help, samples: [{ labels: {}, value }] };
}

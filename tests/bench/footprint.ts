// What the server costs before its first request: size of the executable, time to readiness, memory at rest.
//
// The four example bundles, the executable cache warm; medians of alternating starts beside a bare Bun program, which
// says how fast this machine is. Run it: npm run bench -- footprint

import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EXAMPLES_DIRECTORY } from "../support/bundles.ts";
import { median } from "../support/median.ts";
import { serverCommand, startWorker } from "../support/worker.ts";

const STARTS = Number(process.env.XLASERVER_BENCH_ROUNDS ?? 5);
const SETTLE_MS = 2000;

function anonymousBytes(pid: number): number {
  const line = /^RssAnon:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return Number(line?.[1]) * 1024;
}

async function bareBun(): Promise<number> {
  const start = performance.now();
  await Bun.spawn([process.execPath, "-e", "0"]).exited;
  return performance.now() - start;
}

const cache = mkdtempSync(join(tmpdir(), "xlaserver-bench-"));
try {
  const cold = performance.now();
  await (await startWorker({ repository: EXAMPLES_DIRECTORY, cacheDirectory: cache }))[Symbol.asyncDispose]();
  const coldMs = performance.now() - cold;
  const readyMs: number[] = [];
  const bareMs: number[] = [];
  const anonymous: number[] = [];
  for (let round = 0; round < STARTS; round++) {
    bareMs.push(await bareBun());
    const start = performance.now();
    await using worker = await startWorker({ repository: EXAMPLES_DIRECTORY, cacheDirectory: cache });
    readyMs.push(performance.now() - start);
    // Threads that only loaded something give their memory back in the seconds after.
    await Bun.sleep(SETTLE_MS);
    anonymous.push(anonymousBytes(worker.pid));
  }
  const [executable] = serverCommand();
  console.log(`executable ${(statSync(executable!).size / 1e6).toFixed(1)} MB (${executable!.split("/").at(-1)})`);
  console.log(`ready with cold caches after ${coldMs.toFixed(0)} ms`);
  console.log(
    `ready with warm caches after ${median(readyMs).toFixed(0)} ms, ` +
      `${(median(readyMs) / median(bareMs)).toFixed(1)} times a bare Bun start (${median(bareMs).toFixed(0)} ms)`,
  );
  console.log(`anonymous resident memory at rest ${(median(anonymous) / 1e6).toFixed(0)} MB`);
} finally {
  rmSync(cache, { recursive: true, force: true });
}

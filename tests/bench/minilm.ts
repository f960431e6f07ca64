// MiniLM served against MiniLM bare: rows a second of 32 concurrent single-text requests through the whole server, over
// those of the executable alone in a loop at batch 16 on the same tokens.
//
// While the bare one runs, the same client sends at the rate that was served, to a server that does nothing, so that both
// share the machine's cores with the client alike. Rounds alternate; the ratio is the median of the rounds'.
// Run it: npm run bench -- minilm

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EXAMPLES_DIRECTORY } from "../support/bundles.ts";
import { median } from "../support/median.ts";
import { startWorker } from "../support/worker.ts";

const ROUNDS = Number(process.env.XLASERVER_BENCH_ROUNDS ?? 5);
const SECONDS = 4;
const HERE = join(import.meta.dir, "minilm");

interface Load {
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  readonly errors: number;
}

function spawn(file: string, ...args: string[]) {
  return Bun.spawn([process.execPath, join(HERE, file), ...args], { stdout: "pipe", stderr: "inherit" });
}

async function lines(stream: ReadableStream<Uint8Array>): Promise<string[]> {
  return (await new Response(stream).text()).trim().split("\n");
}

async function load(address: string, rate: number): Promise<Load> {
  const child = spawn("load.ts", address, String(SECONDS), String(rate));
  return JSON.parse((await lines(child.stdout)).at(-1)!) as Load;
}

/** Rows a second of the bare executable beside a client that sends `rate` requests a second to nobody. */
async function bare(rate: number, cache: string, nullAddress: string): Promise<number> {
  const child = spawn("bare.ts", join(EXAMPLES_DIRECTORY, "minilm"), String(SECONDS), cache);
  const client = load(nullAddress, rate);
  const output = await lines(child.stdout);
  await client;
  return (JSON.parse(output.at(-1)!) as { rowsPerSecond: number }).rowsPerSecond;
}

const cache = mkdtempSync(join(tmpdir(), "xlaserver-bench-"));
const nullServer = spawn("null-server.ts");
const nullPort = await (async () => {
  for await (const chunk of nullServer.stdout) return new TextDecoder().decode(chunk).trim();
  throw new Error("the null server did not start");
})();
try {
  const rounds: { served: Load; bare: number }[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const served = await (async () => {
      await using worker = await startWorker({ repository: EXAMPLES_DIRECTORY, cacheDirectory: cache });
      return await load(worker.address, 0);
    })();
    const alone = await bare(served.perSecond, cache, `127.0.0.1:${nullPort}`);
    rounds.push({ served, bare: alone });
    const { perSecond, p50, p99, errors } = served;
    console.log(
      `round ${round + 1}: served ${perSecond.toFixed(1)} rows/s (p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms, ` +
        `${errors} errors), bare ${alone.toFixed(1)} rows/s, ratio ${(perSecond / alone).toFixed(3)}`,
    );
  }
  console.log(
    `served / bare, median of ${ROUNDS}: ${median(rounds.map((r) => r.served.perSecond / r.bare)).toFixed(3)}`,
  );
} finally {
  nullServer.kill();
  rmSync(cache, { recursive: true, force: true });
}

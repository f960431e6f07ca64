// The wire alone: `net/` with a constant reply, and with an echo of 602 KB, against a bare node:http2 server on Bun.
//
// The server is pinned to one core and h2load to another; runs alternate, figures are medians, and the ratios count:
// absolute ones follow the machine. Run it: npm run bench -- wire

import { join } from "node:path";
import { median } from "../support/median.ts";
import { H2load, type Load, type Outcome } from "./wire/h2load.ts";

const ROUNDS = Number(process.env.XLASERVER_BENCH_ROUNDS ?? 5);
const SERVER_CORE = 0;
const LOAD_CORE = 1;

const SMALL = new Uint8Array(64).fill(1);
const IMAGE = new Uint8Array(602_112).fill(1);

interface Case {
  readonly name: string;
  readonly path: string;
  readonly load: Load;
}

const CASES: readonly Case[] = [
  {
    name: "64 B, 1 x 1",
    path: "/bench/Constant",
    load: { connections: 1, streams: 1, message: SMALL, requests: 15_000 },
  },
  {
    name: "64 B, 4 x 16",
    path: "/bench/Constant",
    load: { connections: 4, streams: 16, message: SMALL, requests: 200_000 },
  },
  {
    name: "64 B, 8 x 32",
    path: "/bench/Constant",
    load: { connections: 8, streams: 32, message: SMALL, requests: 200_000 },
  },
  {
    name: "602 KB echo, 2 x 4",
    path: "/bench/Echo",
    load: { connections: 2, streams: 4, message: IMAGE, requests: 1_500 },
  },
];

interface Server extends Disposable {
  readonly name: string;
  readonly port: number;
}

async function start(file: string): Promise<Server> {
  const command = ["taskset", "-c", String(SERVER_CORE), process.execPath, join(import.meta.dir, "wire", `${file}.ts`)];
  const child = Bun.spawn(command, { stdout: "pipe", stderr: "inherit" });
  const reader = child.stdout.getReader();
  const { value } = await reader.read();
  const port = Number(new TextDecoder().decode(value).trim());
  if (!port) throw new Error(`${file} printed no port`);
  return { name: file, port, [Symbol.dispose]: () => child.kill() };
}

async function compare({ name, path, load }: Case, h2load: H2load, ours: Server, baseline: Server): Promise<void> {
  const outcomes: Record<"ours" | "baseline", Outcome[]> = { ours: [], baseline: [] };
  const warmUp = { ...load, requests: Math.ceil(load.requests / 10) };
  for (const server of [ours, baseline]) await h2load.run(server.port, path, warmUp);
  for (let round = 0; round < ROUNDS; round++) {
    outcomes.ours.push(await h2load.run(ours.port, path, load));
    outcomes.baseline.push(await h2load.run(baseline.port, path, load));
  }
  const rate = (of: Outcome[]) => median(of.map(({ perSecond }) => perSecond));
  const us = (of: Outcome[]) => median(of.map(({ meanUs }) => meanUs));
  const ratio = median(outcomes.ours.map(({ perSecond }, round) => perSecond / outcomes.baseline[round]!.perSecond));
  console.log(
    [
      name.padEnd(20),
      `${Math.round(rate(outcomes.ours))}/s`.padStart(10),
      `${us(outcomes.ours).toFixed(0)} us`.padStart(10),
      `${Math.round(rate(outcomes.baseline))}/s`.padStart(10),
      `${us(outcomes.baseline).toFixed(0)} us`.padStart(10),
      ratio.toFixed(2).padStart(8),
    ].join(" "),
  );
}

const missing = ["h2load", "taskset"].filter((tool) => Bun.which(tool) === null);
if (missing.length > 0) {
  console.log(`skipped: ${missing.join(" and ")} not on PATH (Debian: nghttp2-client, util-linux)`);
  process.exit(0);
}
using h2load = new H2load(LOAD_CORE);
using ours = await start("constant");
using baseline = await start("node-http2");
console.log(
  `${"".padEnd(20)} ${"net/".padStart(10)} ${"mean".padStart(10)} ${"node:http2".padStart(10)} ${"mean".padStart(10)} ${"ratio".padStart(8)}`,
);
for (const each of CASES) await compare(each, h2load, ours, baseline);

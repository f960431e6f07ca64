// Triton's own load tool against the server: it reads ModelConfig, metadata and statistics before and while it sends.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { EXAMPLES_DIRECTORY } from "../support/bundles.ts";
import { findTool } from "../support/tools.ts";
import { startWorker, type TestWorker } from "../support/worker.ts";

const START_MS_MAX = 120_000;
const RUN_MS_MAX = 120_000;
// The library that perf_analyzer is linked against comes as a Python package, outside the linker's paths.
const VENV = join(import.meta.dir, "../../.deps/venv");
const LIBRARIES = new Bun.Glob("lib/python3*/site-packages/nvidia/cuda_runtime/lib");

const tool = findTool("perfAnalyzer");
const missing = "missing" in tool ? tool.missing : unstartable(tool.path);
if (missing) console.log(`perf_analyzer skipped: ${missing}`);

let worker: TestWorker;

beforeAll(async () => {
  if (!missing) worker = await startWorker({ repository: EXAMPLES_DIRECTORY });
}, START_MS_MAX);

afterAll(() => worker?.[Symbol.asyncDispose]());

/** Why the program can't be started here, e.g. for want of a library. */
function unstartable(path: string): string | undefined {
  const { exitCode, stderr } = Bun.spawnSync([path, "--version"], { env: environment() });
  return exitCode === 127 ? stderr.toString().trim() : undefined;
}

function environment(): Record<string, string | undefined> {
  const [libraries] = existsSync(VENV) ? LIBRARIES.scanSync({ cwd: VENV, onlyFiles: false, absolute: true }) : [];
  return { ...process.env, LD_LIBRARY_PATH: libraries };
}

for (const [model, flags] of [
  ["simple", []],
  ["simple", ["-b", "8"]],
  ["minilm", ["--shape", "texts:1", "--string-data", "a short sentence"]],
] as const) {
  test.skipIf(missing !== undefined)(
    `perf_analyzer -m ${model} ${flags.join(" ")}`,
    async () => {
      // Windows by count: no figure is judged, so the first two that agree by its generous bound will do.
      const load = [
        "--measurement-mode",
        "count_windows",
        "--measurement-request-count",
        "20",
        "-s",
        "1000",
        "-r",
        "3",
      ];
      const command = ["-m", model, "-i", "grpc", "-u", worker.address, "--concurrency-range", "4", ...load, ...flags];
      const child = Bun.spawn([(tool as { path: string }).path, ...command], {
        env: environment(),
        stdout: "pipe",
        stderr: "pipe",
      });
      const output = (await new Response(child.stdout).text()) + (await new Response(child.stderr).text());
      expect([await child.exited, output]).toEqual([0, expect.stringMatching(/throughput: [1-9]/)]);
    },
    RUN_MS_MAX,
  );
}

// A program around nothing but hooks, for tests that must run outside of Bun's test runner: compiled, or because an
// error outside of any call counts there.
//
// `hook-program.ts run DIR` loads the bundle's model.ts, calls preprocess twice with one f32 x = [1, 2], and prints
// {values, warnings: [error, stack][]}; `hook-program.ts extract DIR` writes preload.js and xlaserver.d.ts.

import { join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import type { Logger } from "../../src/base/log.ts";
import { preloadSource, typesSource } from "../../src/hooks/bundle-tests.ts";
import { createHookPool } from "../../src/hooks/pool.ts";
import { Chunks } from "../../src/tensor/byte-source.ts";

const [command, directory] = process.argv.slice(2) as [string, string];

async function run(): Promise<void> {
  const warnings: unknown[] = [];
  const silent = () => {};
  const log: Logger = {
    debug: silent,
    info: silent,
    warn: (_, fields) => warnings.push([fields?.error, fields?.stack]),
    error: silent,
  };
  using pool = createHookPool({ threads: 1, memoryBoundBytes: 2 ** 30, clock: systemClock, log });
  const file = join(directory, "model.ts");
  using set = await pool.load({ name: "m", generation: 1, directory, file, timeLimitMs: 10_000 });
  const x = {
    name: "x",
    dtype: "f32",
    shape: [2],
    data: Chunks.of(new Uint8Array(Float32Array.of(1, 2).buffer)),
  } as const;
  let values: number[] = [];
  for (let call = 0; call < 2; call++) {
    const request = { parameters: new Map(), requestId: "", deadlineMs: undefined };
    const { tensors } = await set.preprocess([x], request).done;
    values = [...new Float32Array(tensors[0]!.data.contiguous().slice().buffer)];
  }
  console.log(JSON.stringify({ values, warnings }));
}

if (command === "run") await run();
else {
  await Bun.write(join(directory, "preload.js"), await preloadSource());
  await Bun.write(join(directory, "xlaserver.d.ts"), typesSource());
}

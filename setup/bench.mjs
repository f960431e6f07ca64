// `npm run bench [-- name ...]`: runs tests/bench/<name>.ts with Bun, all of them if none is named.
//
// Those in folders below (gpu/overlap) need a machine of their own, so they run only when they are named.

import { existsSync, readdirSync } from "node:fs";
import { ensureExecutable } from "./executable.mjs";
import { bunBinary } from "./packages.mjs";
import { at } from "./paths.mjs";
import { prepare } from "./prepare.mjs";
import { SetupError, script, watch } from "./run.mjs";
import { ensureBenchTools } from "./test-tools.mjs";

await script(async (names) => {
  const directory = at("tests", "bench");
  const known = existsSync(directory)
    ? readdirSync(directory)
        .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"))
        .map((file) => file.slice(0, -".ts".length))
    : [];
  const unknown = names.filter((name) => !existsSync(at("tests", "bench", `${name}.ts`)));
  if (unknown.length > 0) throw new SetupError(`no benchmark ${unknown.join(", ")}; there are ${known.join(", ")}`);

  await Promise.all([prepare(), ensureBenchTools()]);
  await ensureExecutable();
  const bun = await bunBinary();
  let failures = 0;
  for (const name of names.length > 0 ? names : known) {
    console.log(`\n== ${name}`);
    const { code } = await watch(bun, [at("tests", "bench", `${name}.ts`)], { show: true });
    if (code !== 0) failures++;
  }
  return failures > 0 ? 1 : 0;
});

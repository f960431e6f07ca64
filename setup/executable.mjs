// dist/xlaserver: built by build.ts with Bun, again only when something that goes into it has changed.
//
// Used by the commands that run the server: start, test, bench, build.

import { bunBinary } from "./packages.mjs";
import { at, EXECUTABLE } from "./paths.mjs";
import { run, step } from "./run.mjs";
import { digestOf, stamp, upToDate } from "./stamps.mjs";
import { EMBEDDED_PLUGIN } from "./wheels.mjs";

const SOURCES = [
  "src",
  "ffi",
  "proto",
  "build.ts",
  "tsconfig.json",
  "package.json",
  "package-lock.json",
  "LICENSE",
  "licenses",
];

/** Builds the executable unless it is up to date. */
export async function ensureExecutable() {
  const key = `${digestOf(SOURCES.map((source) => at(source)))} ${EMBEDDED_PLUGIN.sha256}`;
  if (upToDate("executable", key, [EXECUTABLE])) return;
  await step(
    "the executable dist/xlaserver (bun build.ts)",
    "Correct what it says and run the same command again",
    async () => run(await bunBinary(), [at("build.ts")]),
  );
  stamp("executable", key);
}

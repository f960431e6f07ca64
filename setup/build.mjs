// `npm run build`: dist/xlaserver and its SHA256SUMS.

import { statSync } from "node:fs";
import { ensureExecutable } from "./executable.mjs";
import { EXECUTABLE } from "./paths.mjs";
import { prepare } from "./prepare.mjs";
import { script } from "./run.mjs";

await script(async () => {
  await prepare();
  await ensureExecutable();
  console.log(`dist/xlaserver is up to date (${(statSync(EXECUTABLE).size / 1e6).toFixed(0)} MB)`);
});

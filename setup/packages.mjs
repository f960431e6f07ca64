// The JavaScript packages, by npm from the lock file, and the Bun binary among them.
//
// npm may be told not to run packages' install scripts, and Bun's own script is what moves its binary to
// node_modules/bun; so the binary is looked for in both places, and tried. Used by every command.

import { existsSync, statSync } from "node:fs";
import { arch } from "node:process";
import { at } from "./paths.mjs";
import { run, SetupError, step, watch } from "./run.mjs";

/** Installs the packages unless node_modules is as new as the lock file. */
export async function ensurePackages() {
  const installed = at("node_modules", ".package-lock.json");
  const lock = at("package-lock.json");
  if (existsSync(installed) && statSync(installed).mtimeMs >= statSync(lock).mtimeMs) return;
  await step(
    "JavaScript packages (npm ci)",
    "Check the network and npm's configuration, then run the same command again",
    () => run("npm", ["ci", "--no-audit", "--no-fund"]),
  );
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

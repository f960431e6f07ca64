// Remembers what has been done: a stamp holds the key that its outputs were made from, in .deps/stamps.
//
// A step is up to date when its stamp holds today's key and its outputs exist, which costs a file read and a few stats.
// Keys are digests of contents, never times, so a fresh checkout of the same sources is still up to date.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { at } from "./paths.mjs";

const path = (name) => at(".deps", "stamps", name);

/** Whether `name` was last stamped with `key` and all `outputs` (paths) exist. */
export function upToDate(name, key, outputs = []) {
  return (
    existsSync(path(name)) && readFileSync(path(name), "utf8") === key && outputs.every((output) => existsSync(output))
  );
}

export function stamp(name, key) {
  mkdirSync(at(".deps", "stamps"), { recursive: true });
  writeFileSync(path(name), key);
}

/** Hex SHA-256 of the files at `paths`; a directory stands for all files below it, in order of name. */
export function digestOf(paths) {
  const hash = createHash("sha256");
  for (const file of paths.flatMap(filesBelow)) {
    hash.update(`${file.slice(at().length)}\0`);
    hash.update(readFileSync(file));
  }
  return hash.digest("hex");
}

function filesBelow(target) {
  if (!existsSync(target)) return [];
  if (!statSync(target).isDirectory()) return [target];
  return readdirSync(target)
    .sort()
    .flatMap((name) => filesBelow(join(target, name)));
}

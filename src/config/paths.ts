// Paths as settings give them, made absolute; and where compiled things go when nobody says.
//
// A leading `~` is the user's home directory: a node file, and a flag's `--name=~/x`, never pass through a shell that
// would say so. Used by load.ts and node-file.ts, and by the commands that have a path but no Config.

import { homedir } from "node:os";
import { join, resolve } from "node:path";

/** `path` from `directory`, or from the home directory where it begins with `~`. */
export function absolutePath(directory: string, path: string): string {
  return path === "~" || path.startsWith("~/") ? join(homedir(), path.slice(1)) : resolve(directory, path);
}

/** `$XDG_CACHE_HOME/xlaserver`, else `~/.cache/xlaserver`. */
export function defaultCacheDirectory(environment: Readonly<Record<string, string | undefined>>): string {
  return join(environment.XDG_CACHE_HOME || join(homedir(), ".cache"), "xlaserver");
}

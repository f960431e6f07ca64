// Flags of the commands that open a device in this process, and the settings they stand for.
//
// Apart from bundle-target.ts, which brings the whole server along: a command's help needs the flags only.

import type { TextSetting } from "../config/overrides.ts";
import { absolutePath, defaultCacheDirectory } from "../config/paths.ts";
import type { Arguments, Flags } from "./arguments.ts";

export const DEVICE_FLAGS = {
  backend: { value: "NAME", help: "cpu (default) or cuda." },
  plugin: { value: "FILE", help: "PJRT plugin to use instead of the one found." },
  "cache-dir": { value: "DIR", help: "Where compiled executables and weights images are kept." },
} as const satisfies Flags;

const PATHS: Readonly<Record<keyof typeof DEVICE_FLAGS, string>> = {
  backend: "runtime.backend",
  plugin: "runtime.plugin",
  "cache-dir": "cache_dir",
};

export function deviceSettings(args: Arguments): TextSetting[] {
  return Object.entries(PATHS).flatMap(([flag, path]) => {
    const text = args.text(flag);
    return text === undefined ? [] : [{ label: `--${flag}`, path: path.split("."), text }];
  });
}

/** The cache directory, for commands that have no other settings: flag, environment, the user's own. */
export function cacheDirectory(args: Arguments): string {
  const given = args.text("cache-dir") ?? process.env.XLASERVER_CACHE_DIR;
  return given ? absolutePath(process.cwd(), given) : defaultCacheDirectory(process.env);
}

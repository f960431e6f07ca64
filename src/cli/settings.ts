// A Config for a command: what is wrong with it is wrong usage (exit 2), not a failure.
//
// config/ and its schema library are loaded only here, by the commands that have settings.

import type { LoadedConfig } from "../config/load.ts";
import type { TextSetting } from "../config/overrides.ts";
import { UsageError } from "./arguments.ts";

/** The node file when no flag names one. */
export function nodeFileVariable(): string | undefined {
  return process.env.XLASERVER_NODE_FILE || undefined;
}

/** Whether a variable names model directories, so that neither a file nor a flag has to. */
export function repositoryVariable(): boolean {
  return Boolean(process.env.XLASERVER_MODEL_DIRS);
}

/** For commands that have no log. */
export function warn(warnings: readonly string[]): void {
  for (const warning of warnings) process.stderr.write(`warning: ${warning}\n`);
}

/** Errors: UsageError that lists every issue. */
export async function readConfig(file: string | undefined, flags: readonly TextSetting[] = []): Promise<LoadedConfig> {
  const [{ loadConfig }, { ConfigError }] = await Promise.all([
    import("../config/load.ts"),
    import("../config/findings.ts"),
  ]);
  try {
    return await loadConfig({ file, environment: process.env, flags });
  } catch (thrown) {
    if (thrown instanceof ConfigError) throw new UsageError(`wrong settings\n${thrown.message}`);
    throw thrown;
  }
}

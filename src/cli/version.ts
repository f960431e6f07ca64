// `xlaserver version`: which build this is, and what it runs on.
//
// Reads what build.ts baked in; opens nothing.

import { COMMIT, VERSION } from "../base/version.ts";
import type { Command } from "./arguments.ts";
import { JSON_FLAG, print, printJson, wantsJson } from "./output.ts";

export const command: Command = {
  usage: "[flags]",
  flags: { json: JSON_FLAG },
  async run(args) {
    const platform = `${process.platform}-${process.arch}`;
    if (wantsJson(args)) await printJson({ version: VERSION, commit: COMMIT, bun: Bun.version, platform });
    else await print(`xlaserver ${VERSION} (${COMMIT}, Bun ${Bun.version}, ${platform})\n`);
    return 0;
  },
};

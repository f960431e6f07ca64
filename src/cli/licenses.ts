// `xlaserver licenses`: the licence of this program, and the notices of everything that its executable contains.
//
// build.ts collects them, fails when one is missing, and embeds the text.

import { fileURLToPath } from "node:url";
import { readBytes } from "../base/files.ts";
import type { Command } from "./arguments.ts";
import { embeddedNotices } from "./embedded-notices.ts";
import { print } from "./output.ts";

export const command: Command = {
  usage: "",
  flags: {},
  async run() {
    if (embeddedNotices) {
      const compressed = await readBytes(embeddedNotices.file);
      await print(new TextDecoder().decode(await Bun.zstdDecompress(compressed)));
    } else {
      // From source nothing is embedded but what package.json names.
      const file = fileURLToPath(new URL("../../LICENSE", import.meta.url));
      await print(new TextDecoder().decode(await readBytes(file)));
    }
    return 0;
  },
};

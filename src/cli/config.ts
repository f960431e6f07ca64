// `xlaserver config`: the settings that a node file, the environment and the defaults make together, and their schema.
//
// What it prints is what the server would run with; the schema and the tables are those that config/ parses by.

import type { Command } from "./arguments.ts";
import { print, printJson } from "./output.ts";
import { readConfig } from "./settings.ts";

export const command: Command = {
  usage: "[FILE] [flags]",
  words: [0, 1],
  flags: {
    schema: { help: "Print the JSON Schema of the node file, for editors." },
    markdown: { help: "Print the table of all keys, as in docs/node-file.md." },
  },
  async run(args) {
    if (args.has("schema")) {
      const { nodeFileSchema } = await import("../config/reference.ts");
      await printJson(nodeFileSchema());
    } else if (args.has("markdown")) {
      const { keyTables } = await import("../config/reference.ts");
      await print(keyTables());
    } else {
      const { config, warnings } = await readConfig(args.words[0] ?? (process.env.XLASERVER_NODE_FILE || undefined));
      for (const warning of warnings) process.stderr.write(`warning: ${warning}\n`);
      await printJson(config);
    }
    return 0;
  },
};

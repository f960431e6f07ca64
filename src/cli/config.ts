// `xlaserver config`: the settings that a node file, the environment and the defaults make together, and their schema.
//
// What it prints is what the server would run with; the schema and the tables are those that config/ parses by.

import { type Command, UsageError } from "./arguments.ts";
import { print, printJson } from "./output.ts";
import { nodeFileVariable, readConfig, repositoryVariable, warn } from "./settings.ts";

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
      const file = args.words[0] ?? nodeFileVariable();
      if (file === undefined && !repositoryVariable())
        throw new UsageError("which node file? Give FILE or XLASERVER_NODE_FILE");
      const { config, warnings } = await readConfig(file);
      warn(warnings);
      const { inNodeFileKeys } = await import("../config/config.ts");
      await printJson(inNodeFileKeys(config));
    }
    return 0;
  },
};

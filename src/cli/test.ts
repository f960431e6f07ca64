// `xlaserver test DIR`: a bundle's own *.test.ts files, run by the test runner that this executable contains.
//
// The runner is a process of this same executable with BUN_BE_BUN=1 (from source: of Bun). What a bundle may import
// without installing anything is defined by a preload, extracted to the cache directory with the types beside it.

import { join, resolve } from "node:path";
import { isDirectory, listDirectory, makeDirectory, writeBytes } from "../base/files.ts";
import { runBun } from "../base/processes.ts";
import { preloadSource, typesSource } from "../hooks/bundle-tests.ts";
import { type Command, UsageError } from "./arguments.ts";
import { cacheDirectory } from "./device-flags.ts";

export const command: Command = {
  usage: "DIR [flags]",
  words: [1, 1],
  flags: { "cache-dir": { value: "DIR", help: "Where the preload and xlaserver.d.ts are put." } },
  async run(args) {
    const bundle = resolve(args.words[0]!);
    if (!isDirectory(bundle)) throw new UsageError(`'${args.words[0]}' is not a directory`);
    if (!listDirectory(bundle).some(({ name }) => /\.test\.[jt]sx?$/.test(name))) {
      throw new UsageError(`'${args.words[0]}' has no *.test.ts`);
    }
    const preload = await extractPreload(join(cacheDirectory(args), "hooks"));
    return runBun(["test", "--preload", preload, "."], bundle);
  },
};

/** The preload's path. Both files are written anew, since they belong to this build. */
async function extractPreload(directory: string): Promise<string> {
  await makeDirectory(directory);
  const preload = join(directory, "preload.js");
  await writeBytes(preload, await preloadSource());
  await writeBytes(join(directory, "xlaserver.d.ts"), typesSource());
  return preload;
}

// What the tests of a bundle need outside of a server: our modules as a preload for Bun's test runner, and their types.
//
// Both are texts, for the caller to put into files. In the executable the preload is the bundled entry point preload.ts
// (an entry point of build.ts, as the threads are); from source it is bundled on the spot. Used by `xlaserver test`.

import { assert } from "../base/errors.ts";
import { readText } from "../base/files.ts";
import { compiled, embeddedEntry } from "../base/program.ts";
import types from "./xlaserver.d.ts.txt" with { type: "text" };

/** Self-contained JavaScript that defines "xlaserver" and "xlaserver/text"; for `bun test --preload FILE.js`. */
export async function preloadSource(): Promise<string> {
  if (compiled) return readText(embeddedEntry("hooks/preload"));
  const built = await Bun.build({
    entrypoints: [Bun.fileURLToPath(new URL("./preload.ts", import.meta.url))],
    target: "bun",
  });
  const [output] = built.outputs;
  assert(output, "the preload of bundle tests was not built");
  return output.text();
}

/** The text of `xlaserver.d.ts`: ambient modules for editors and tsc, generated from api.ts and text/index.ts. */
export function typesSource(): string {
  return types;
}

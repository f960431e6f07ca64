// The one door to threads. A thread's entry file is `<room>/<name>.thread.ts`, started by its path below src/.
//
// In a compiled executable the entry files are extra entrypoints of the build (build.ts finds them by their ending);
// from source they are files beside this room. Used by device/ and hooks/.

import { compiled, embeddedEntry } from "./program.ts";

/** Starts `src/<entry>.ts`, e.g. `spawnThread("hooks/hook.thread")`, as a Bun Worker with its own heap. */
export function spawnThread(entry: string, options: { name?: string } = {}): Worker {
  const url = compiled ? embeddedEntry(entry) : new URL(`../${entry}.ts`, import.meta.url).href;
  return new Worker(url, { name: options.name ?? entry });
}

// The one door to threads. A thread's entry file is `<room>/<name>.thread.ts`, started by its path below src/.
//
// In a compiled executable the entry files are extra entrypoints of the build (build.ts finds them by their ending)
// and live under /$bunfs/root/src; from source they are files beside this room. Used by device/ and hooks/.

const compiled = import.meta.url.includes("/$bunfs/");

/** Starts `src/<entry>.ts`, e.g. `spawnThread("hooks/hook.thread")`, as a Bun Worker with its own heap. */
export function spawnThread(entry: string, options: { name?: string } = {}): Worker {
  const url = compiled ? `/$bunfs/root/src/${entry}.js` : new URL(`../${entry}.ts`, import.meta.url).href;
  return new Worker(url, { name: options.name ?? entry });
}

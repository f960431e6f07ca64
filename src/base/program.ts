// How this program runs: as the built executable, or from source by Bun.
//
// In the executable the entry points of build.ts lie in a file system of Bun's own, each under its path below src/. Used
// wherever another entry point is started or read, or where only one of the two ways has something.

const EMBEDDED = "/$bunfs/";

export const compiled = import.meta.url.includes(EMBEDDED);

/** What every path of our own code starts with. */
export const codeRoot = compiled ? EMBEDDED : Bun.fileURLToPath(new URL("../", import.meta.url));

/** The entry point `src/<entry>.ts`, as the executable holds it. */
export function embeddedEntry(entry: string): string {
  return `${EMBEDDED}root/src/${entry}.js`;
}

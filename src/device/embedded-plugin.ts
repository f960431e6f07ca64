// The CPU plugin that the executable carries; undefined when run from source.
//
// build.ts replaces this module (a Bun build plugin answers its path in onLoad) by one that imports the compressed file
// with `{ type: "file" }` and exports the same name and type. Nothing else may be exported here.
// Used by extract-plugin.ts, plugins.ts and the licenses command.

export interface EmbeddedPlugin {
  /** Path inside the executable of the plugin, compressed with zstd. */
  readonly file: string;
  /** SHA-256 in hexadecimal, and length, of the plugin itself, not of the compressed file. */
  readonly sha256: string;
  readonly bytes: number;
  /** Distribution that it comes from, e.g. lammps-jax-pjrt-cpu 0.11.2. */
  readonly name: string;
  readonly version: string;
}

export const embeddedPlugin: EmbeddedPlugin | undefined = undefined as EmbeddedPlugin | undefined;

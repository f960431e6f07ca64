// The licences and notices that the executable carries; undefined when run from source.
//
// build.ts replaces this module by one that imports the compressed text with `{ type: "file" }`. Used by licenses.ts.

export interface EmbeddedNotices {
  /** Path inside the executable of the text, compressed with zstd. */
  readonly file: string;
}

export const embeddedNotices: EmbeddedNotices | undefined = undefined as EmbeddedNotices | undefined;

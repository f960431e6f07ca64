// What a file turned out to be, and its text, for readers that expect a certain content.
//
// A directory, a device, or the small text that Git LFS leaves in place of a large file: each has its own remedy, so each
// has its own words. Used by the readers of manifests, modules and weights.

import type { DirectoryEntry } from "../base/files.ts";

const LFS_HEAD = "version https://git-lfs.github.com/spec/";

export function kindInWords(kind: DirectoryEntry["kind"]): string {
  if (kind === "directory") return "a directory";
  return kind === "file" ? "a file" : "no regular file (a dangling link, a device, a pipe)";
}

/** What to say of a Git LFS pointer, which a checkout without Git LFS leaves; undefined for anything else. */
export function gitLfsPointer(head: Uint8Array): string | undefined {
  for (let index = 0; index < LFS_HEAD.length; index++) {
    if (head[index] !== LFS_HEAD.charCodeAt(index)) return undefined;
  }
  return "a Git LFS pointer: 'git lfs pull' brings the file";
}

/** Text in UTF-8; undefined for other bytes. The first part of a text may end inside a character. */
export function decodeText(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true });
  } catch {
    return undefined;
  }
}

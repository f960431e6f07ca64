// The embedded plugin as a file: extracted once to the cache directory, where the dynamic linker can open it.
//
// The file has its name only once it is whole, verified by SHA-256 and on the disk. So two starts at once both get a right
// file (the second rename replaces it by an equal one; the first process keeps the one it mapped), and a killed
// extraction leaves a temporary that a later start clears away. No lock: a dead owner could hold up every start.

import { join } from "node:path";
import { Readable } from "node:stream";
import { createZstdDecompress } from "node:zlib";
import { systemClock } from "../base/clock.ts";
import { messageOf, ServerError } from "../base/errors.ts";
import { identify, makeDirectory, removeStaleTemporaries, streamFile, writeAtomically } from "../base/files.ts";
import { EXTRACTION_MS_MAX } from "../base/limits.ts";
import { digestOf, recordDigest } from "./digests.ts";
import type { EmbeddedPlugin } from "./embedded-plugin.ts";

/** Where the plugin lies, extracting it if need be. Errors: DATA_LOSS when the embedded file is damaged; those of writing. */
export async function extractPlugin(plugin: EmbeddedPlugin, cacheDirectory: string): Promise<string> {
  const directory = join(cacheDirectory, "plugins");
  await makeDirectory(directory);
  const path = join(directory, `${plugin.name}-${plugin.version}-${plugin.sha256.slice(0, 16)}.so`);
  if (identify(path)?.byteLength === plugin.bytes && (await digestOf(path, cacheDirectory)) === plugin.sha256)
    return path;
  removeStaleTemporaries(directory, systemClock.wallMs(), EXTRACTION_MS_MAX);
  await writeAtomically(path, (write) => decompress(plugin, write));
  await recordDigest(path, cacheDirectory, plugin.sha256);
  return path;
}

async function decompress(plugin: EmbeddedPlugin, write: (bytes: Uint8Array) => void): Promise<void> {
  const hasher = new Bun.CryptoHasher("sha256");
  let byteLength = 0;
  try {
    // Streamed, so that a start needs a few megabytes and not the whole plugin in memory.
    const compressed = Readable.from(streamFile(plugin.file));
    const plain = createZstdDecompress();
    compressed.on("error", (error) => plain.destroy(error));
    for await (const chunk of compressed.pipe(plain) as AsyncIterable<Uint8Array>) {
      byteLength += chunk.byteLength;
      hasher.update(chunk);
      write(chunk);
    }
  } catch (thrown) {
    // The disk's own failure (full, say), not the data's.
    if ((thrown as { syscall?: string }).syscall === "write") throw thrown;
    throw new ServerError("DATA_LOSS", `the embedded plugin can't be extracted: ${messageOf(thrown)}`, {
      cause: thrown,
    });
  }
  const digest = hasher.digest("hex");
  if (digest !== plugin.sha256 || byteLength !== plugin.bytes) {
    const found = `${byteLength} bytes with SHA-256 ${digest}`;
    const message = `the embedded plugin is damaged: expected ${plugin.bytes} bytes with SHA-256 ${plugin.sha256}, found ${found}`;
    throw new ServerError("DATA_LOSS", message);
  }
}

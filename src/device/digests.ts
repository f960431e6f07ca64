// SHA-256 of large files, computed once: kept in the cache directory beside path, size, time stamp and inode.
//
// A file whose identity changed is digested anew; a record that is damaged or missing only costs the time to do so.
// Used for plugins (201 MB take 0.23 s, at every start) and for the sources of weights images.

import { join } from "node:path";
import { ServerError } from "../base/errors.ts";
import {
  type FileIdentity,
  identify,
  makeDirectory,
  readBytesSync,
  sameIdentity,
  sha256,
  sha256OfFile,
  writeBytes,
} from "../base/files.ts";

interface DigestRecord extends FileIdentity {
  readonly sha256: string;
}

/** The digest recorded for the file as it is now; undefined when there is none. Reads two small things, never the file. */
export function recordedDigest(path: string, cacheDirectory: string): string | undefined {
  const identity = identify(path);
  if (!identity) return undefined;
  try {
    const bytes = readBytesSync(recordPath(path, cacheDirectory));
    const record = JSON.parse(new TextDecoder().decode(bytes)) as DigestRecord;
    return sameIdentity(identity, record) ? record.sha256 : undefined;
  } catch {
    return undefined;
  }
}

/**
 * SHA-256 of a file in hexadecimal, from the record if there is one, else computed and recorded.
 * Errors: NOT_FOUND and the like; FAILED_PRECONDITION when the file changes while it is read.
 */
export async function digestOf(path: string, cacheDirectory: string): Promise<string> {
  const known = recordedDigest(path, cacheDirectory);
  if (known) return known;
  const before = identify(path);
  const digest = await sha256OfFile(path);
  const after = identify(path);
  if (!before || !after || !sameIdentity(before, after)) {
    throw new ServerError("FAILED_PRECONDITION", `'${path}' changed while it was read`);
  }
  await recordDigest(path, cacheDirectory, digest);
  return digest;
}

/** Records the digest of a file that the caller has just written or read whole. */
export async function recordDigest(path: string, cacheDirectory: string, digest: string): Promise<void> {
  const identity = identify(path);
  if (!identity) return;
  await makeDirectory(join(cacheDirectory, "digests"));
  await writeBytes(recordPath(path, cacheDirectory), JSON.stringify({ ...identity, sha256: digest }));
}

function recordPath(path: string, cacheDirectory: string): string {
  return join(cacheDirectory, "digests", `${sha256(new TextEncoder().encode(path)).slice(0, 32)}.json`);
}

// SHA-256 of large files, computed once: kept in the cache directory beside path, size, time stamp and inode.
//
// A file whose identity changed is digested anew; a record that is damaged or missing only costs the time to do so.
// Damage that leaves size, time stamp and inode as they were (a failing disk) is not noticed. Used for plugins (201 MB
// take 0.23 s, at every start), for the sources of weights images, and for the images themselves.

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
  const record = readRecord(path, cacheDirectory);
  return identity && record && sameIdentity(identity, record) ? record.sha256 : undefined;
}

/**
 * Whether a file still has the content that was recorded of it: judged by its identity or, where that differs, by its
 * content, whose record is renewed then. False without a record. Errors: those of reading.
 */
export async function isAsRecorded(path: string, cacheDirectory: string): Promise<boolean> {
  const identity = identify(path);
  const record = readRecord(path, cacheDirectory);
  if (!identity || !record) return false;
  if (sameIdentity(identity, record)) return true;
  if ((await sha256OfFile(path)) !== record.sha256) return false;
  await writeRecord({ ...identity, sha256: record.sha256 }, cacheDirectory);
  return true;
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
  await writeRecord({ ...before, sha256: digest }, cacheDirectory);
  return digest;
}

/** Records the digest of a file that the caller has just written. */
export async function recordDigest(path: string, cacheDirectory: string, digest: string): Promise<void> {
  const identity = identify(path);
  if (identity) await writeRecord({ ...identity, sha256: digest }, cacheDirectory);
}

/** A cache that may only be read stays as it is: the file is digested at each start. */
async function writeRecord(record: DigestRecord, cacheDirectory: string): Promise<void> {
  try {
    await makeDirectory(join(cacheDirectory, "digests"));
    await writeBytes(recordPath(record.path, cacheDirectory), JSON.stringify(record));
  } catch (thrown) {
    if (ServerError.from(thrown, "digest record").code !== "PERMISSION_DENIED") throw thrown;
  }
}

function readRecord(path: string, cacheDirectory: string): DigestRecord | undefined {
  try {
    return JSON.parse(new TextDecoder().decode(readBytesSync(recordPath(path, cacheDirectory)))) as DigestRecord;
  } catch {
    return undefined;
  }
}

function recordPath(path: string, cacheDirectory: string): string {
  return join(cacheDirectory, "digests", `${sha256(new TextEncoder().encode(path)).slice(0, 32)}.json`);
}

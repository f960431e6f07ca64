// The one door to the file system: reads, listings, digests, and writes that are whole or absent.
//
// A reader never sees a half-written file: writes go to a temporary neighbour, reach the disk, then take the name by
// rename. A process that is killed in between leaves only a temporary, which removeStaleTemporaries() clears away.
// Failures are ServerErrors that name the file. Used by bundle/, config/, device/ and cli/.

import { randomUUID } from "node:crypto";
import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeSync,
} from "node:fs";
import { mkdir, open, readFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { messageOf, ServerError, type StatusCode } from "./errors.ts";

const CHUNK_BYTES = 1 << 20;
const TEMPORARY_MARK = ".tmp-";

/** What tells whether a file is still the one that was looked at before. Times in milliseconds of the Unix epoch. */
export interface FileIdentity {
  readonly path: string;
  readonly byteLength: number;
  readonly modifiedMs: number;
  readonly inode: number;
}

export interface DirectoryEntry {
  readonly name: string;
  readonly kind: "file" | "directory" | "other";
}

/** The ServerError for a failed file operation: NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED (disk full) or INTERNAL. */
export function fileError(thrown: unknown, doing: string, path: string): ServerError {
  if (thrown instanceof ServerError) return thrown;
  const errno = (thrown as { code?: string } | undefined)?.code;
  const known: Record<string, [StatusCode, string]> = {
    ENOENT: ["NOT_FOUND", "no such file or directory"],
    ENOTDIR: ["NOT_FOUND", "part of the path is not a directory"],
    EISDIR: ["INVALID_ARGUMENT", "it is a directory"],
    EACCES: ["PERMISSION_DENIED", "permission denied"],
    EPERM: ["PERMISSION_DENIED", "operation not permitted"],
    EROFS: ["PERMISSION_DENIED", "read-only file system"],
    ENOSPC: ["RESOURCE_EXHAUSTED", "no space left on the disk"],
    EDQUOT: ["RESOURCE_EXHAUSTED", "disk quota exceeded"],
    EMFILE: ["RESOURCE_EXHAUSTED", "too many open files"],
  };
  // No cause: the message says all that it would.
  const [code, reason] = (errno && known[errno]) || (["INTERNAL", messageOf(thrown)] as [StatusCode, string]);
  return new ServerError(code, `cannot ${doing} '${path}': ${reason}`);
}

/** The file's identity, symbolic links followed; undefined when it does not exist. */
export function identify(path: string): FileIdentity | undefined {
  try {
    const { size, mtimeMs, ino } = statSync(path);
    return { path, byteLength: size, modifiedMs: mtimeMs, inode: ino };
  } catch (thrown) {
    const errno = (thrown as { code?: string }).code;
    if (errno === "ENOENT" || errno === "ENOTDIR") return undefined;
    throw fileError(thrown, "look at", path);
  }
}

export function sameIdentity(a: FileIdentity, b: FileIdentity): boolean {
  return a.path === b.path && a.byteLength === b.byteLength && a.modifiedMs === b.modifiedMs && a.inode === b.inode;
}

/** What stands at a path, symbolic links followed; `other` too where nothing does, or it can't be looked at. */
export function kindOf(path: string): DirectoryEntry["kind"] {
  try {
    const stat = statSync(path);
    return stat.isFile() ? "file" : stat.isDirectory() ? "directory" : "other";
  } catch {
    return "other"; // a dangling link, a loop of links, a directory that may not be searched
  }
}

export function isDirectory(path: string): boolean {
  return kindOf(path) === "directory";
}

export function isFile(path: string): boolean {
  return kindOf(path) === "file";
}

/** The path with every symbolic link resolved. Errors: NOT_FOUND and the like. */
export function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch (thrown) {
    throw fileError(thrown, "resolve", path);
  }
}

/** The entries of a directory in order of name, symbolic links followed; what can't be looked at is `other`. */
export function listDirectory(path: string): DirectoryEntry[] {
  try {
    return readdirSync(path)
      .sort()
      .map((name) => ({ name, kind: kindOf(join(path, name)) }));
  } catch (thrown) {
    throw fileError(thrown, "list", path);
  }
}

export async function makeDirectory(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true });
  } catch (thrown) {
    throw fileError(thrown, "make directory", path);
  }
}

export function readBytesSync(path: string): Uint8Array {
  try {
    return readFileSync(path);
  } catch (thrown) {
    throw fileError(thrown, "read", path);
  }
}

export async function readBytes(path: string): Promise<Uint8Array> {
  try {
    return await readFile(path);
  } catch (thrown) {
    throw fileError(thrown, "read", path);
  }
}

export async function readText(path: string): Promise<string> {
  return new TextDecoder().decode(await readBytes(path));
}

/** A file in pieces, also one inside the executable; a failure comes while it is read. */
export function streamFile(path: string): AsyncIterable<Uint8Array> {
  return Bun.file(path).stream() as unknown as AsyncIterable<Uint8Array>;
}

/** Runs `use` with the file open for reading; what `use` makes of the descriptor must not need it afterwards. */
export function withOpenFile<T>(path: string, use: (fd: number) => T): T {
  let fd: number;
  try {
    fd = openSync(path, "r");
  } catch (thrown) {
    throw fileError(thrown, "open", path);
  }
  try {
    return use(fd);
  } finally {
    closeSync(fd);
  }
}

/** `byteLength` bytes from `offset`; fewer only where the file ends. */
export function readRange(path: string, offset: number, byteLength: number): Uint8Array {
  try {
    const fd = openSync(path, "r");
    try {
      const target = new Uint8Array(Math.min(byteLength, Math.max(fstatSync(fd).size - offset, 0)));
      let filled = 0;
      while (filled < target.byteLength) {
        const count = readSync(fd, target, filled, target.byteLength - filled, offset + filled);
        if (count === 0) break;
        filled += count;
      }
      return target.subarray(0, filled);
    } finally {
      closeSync(fd);
    }
  } catch (thrown) {
    throw fileError(thrown, "read", path);
  }
}

/** SHA-256 in hexadecimal. */
export function sha256(bytes: Uint8Array): string {
  return new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
}

/** SHA-256 of a file in hexadecimal, read in pieces so that memory stays small and the caller's thread stays free. */
export async function sha256OfFile(path: string): Promise<string> {
  const hasher = new Bun.CryptoHasher("sha256");
  try {
    await using file = await open(path, "r");
    const chunk = new Uint8Array(CHUNK_BYTES);
    for (;;) {
      const { bytesRead } = await file.read(chunk, 0, chunk.byteLength, null);
      if (bytesRead === 0) return hasher.digest("hex");
      hasher.update(chunk.subarray(0, bytesRead));
    }
  } catch (thrown) {
    throw fileError(thrown, "read", path);
  }
}

/**
 * Creates or replaces `path` with what `fill` writes; readers see the old file or the whole new one. `write` appends
 * its bytes before it returns. When `fill` throws, nothing is left behind and the error goes on to the caller.
 */
export async function writeAtomically(
  path: string,
  fill: (write: (bytes: Uint8Array) => void) => void | Promise<void>,
): Promise<void> {
  const temporary = join(dirname(path), `${TEMPORARY_MARK}${basename(path)}-${process.pid}-${randomUUID()}`);
  let fd: number | undefined;
  try {
    fd = openSync(temporary, "wx", 0o644);
    const target = fd;
    await fill((bytes) => {
      let written = 0;
      while (written < bytes.byteLength) written += writeSync(target, bytes, written, bytes.byteLength - written);
    });
    fsyncSync(fd);
    closeSync(fd);
    fd = undefined;
    renameSync(temporary, path);
  } catch (thrown) {
    if (fd !== undefined) closeSync(fd);
    rmSync(temporary, { force: true });
    throw fileError(thrown, "write", path);
  }
}

/** Creates or replaces `path` with these bytes, whole or not at all. */
export function writeBytes(path: string, bytes: Uint8Array | string): Promise<void> {
  const whole = typeof bytes === "string" ? new TextEncoder().encode(bytes) : bytes;
  return writeAtomically(path, (write) => write(whole));
}

/** Writes text to an open descriptor. Undefined: it is written; a promise: the rest is, once its reader takes it. */
export type DescriptorWriter = (text: string) => Promise<unknown> | undefined;

/**
 * A writer to an open descriptor that never waits for the reader of a pipe or socket: a full one makes it answer with a
 * promise, and the next text must wait for that. A terminal that its user has stopped does stop the caller. Errors: the
 * system's own, thrown or rejected, e.g. EPIPE; the writer stays usable.
 */
export function descriptorWriter(descriptor: number): DescriptorWriter {
  const stat = fstatSync(descriptor);
  const target = stat.isSocket() ? descriptor : stat.isFIFO() ? nonBlockingTwin(descriptor) : undefined;
  if (target === undefined) {
    return (text) => {
      writeSync(descriptor, text);
      return undefined;
    };
  }
  let sink: Bun.FileSink | undefined;
  return (text) => {
    try {
      sink ??= Bun.file(target).writer();
      sink.write(text);
      const flushed = sink.flush();
      if (typeof flushed === "number") return undefined;
      return flushed.catch((thrown) => {
        sink = undefined;
        throw thrown;
      });
    } catch (thrown) {
      sink = undefined; // it takes nothing more after a failure
      throw thrown;
    }
  };
}

/**
 * The same pipe, opened once more so that only we don't wait: the flag belongs to the open file, which we share with our
 * parents. Where the system refuses, since the pipe is another user's, they don't wait either.
 */
function nonBlockingTwin(pipe: number): number {
  try {
    return openSync(`/proc/self/fd/${pipe}`, constants.O_WRONLY | constants.O_NONBLOCK);
  } catch {
    return pipe;
  }
}

/** Removes a file; does nothing when it is not there. */
export function removeFile(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch (thrown) {
    throw fileError(thrown, "remove", path);
  }
}

/**
 * Marks a file as used at `timeMs` (Unix), so that a size-bounded directory can drop the least recently used. A file
 * that may only be read keeps its time: nobody drops it either.
 */
export function touch(path: string, timeMs: number): void {
  try {
    utimesSync(path, timeMs / 1000, timeMs / 1000);
  } catch (thrown) {
    const error = fileError(thrown, "touch", path);
    if (error.code !== "PERMISSION_DENIED") throw error;
  }
}

/** Removes the temporaries in a directory that writers, killed more than `ageMs` before `nowMs`, left behind. */
export function removeStaleTemporaries(directory: string, nowMs: number, ageMs: number): void {
  for (const { name } of listDirectory(directory)) {
    if (!name.startsWith(TEMPORARY_MARK)) continue;
    const path = join(directory, name);
    const identity = identify(path);
    if (identity && nowMs - identity.modifiedMs > ageMs) removeFile(path);
  }
}

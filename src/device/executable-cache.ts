// Compiled executables on the disk: one file a key, whole or absent, verified before a plugin sees a byte of it.
//
// PJRT trusts what it deserialises, so an entry that is truncated, altered or of another format is refused here, and the
// caller compiles again. Entries are bounded in bytes, the least recently used go first; a learned cost lies beside its
// entry. Writers in several processes are safe: writes are atomic and equal keys mean equal content.

import { join } from "node:path";
import type { LaunchFacts } from "../../ffi/pjrt/executable.ts";
import { messageOf } from "../base/errors.ts";
import {
  identify,
  listDirectory,
  makeDirectory,
  readBytesSync,
  removeFile,
  removeStaleTemporaries,
  sha256,
  touch,
  writeAtomically,
  writeBytes,
} from "../base/files.ts";
import { EXTRACTION_MS_MAX } from "../base/limits.ts";
import type { TensorType } from "../tensor/signature.ts";
import type { CompiledMemory } from "./device.ts";

/** What is known of an executable without loading it. */
export interface ExecutableDescription {
  readonly parameters: readonly TensorType[];
  readonly results: readonly TensorType[];
  readonly memory: CompiledMemory;
  readonly flops: number | undefined;
}

export interface CachedExecutable {
  readonly description: ExecutableDescription;
  /** What launching it needs to know, so that loading need not ask: 6 ms a module of MiniLM. */
  readonly launch: LaunchFacts;
  /** What PJRT serialised. */
  readonly payload: Uint8Array;
}

/** `undefined` and no reason: nothing is stored. With a reason: something is, and it can't be used. */
export type CacheRead =
  | { readonly entry: CachedExecutable; readonly reason?: never }
  | { readonly entry?: never; readonly reason?: string };

interface EntryHeader extends Omit<CachedExecutable, "payload"> {
  readonly key: string;
}

const MAGIC = "xlaserver executable 2\n";
const DIGEST_CHARACTERS = 64;
const ENTRY_ENDING = ".executable";
const COST_ENDING = ".cost";

export class ExecutableCache {
  private constructor(
    readonly directory: string,
    private readonly byteBound: number,
  ) {}

  /** The cache in `<cacheDirectory>/executables`, made if need be. */
  static async open(cacheDirectory: string, byteBound: number, wallMs: number): Promise<ExecutableCache> {
    const directory = join(cacheDirectory, "executables");
    await makeDirectory(directory);
    removeStaleTemporaries(directory, wallMs, EXTRACTION_MS_MAX);
    return new ExecutableCache(directory, byteBound);
  }

  /** Reads and verifies the entry of `key`, and marks it as used at `wallMs`. Blocks for the time of reading. */
  read(key: string, wallMs: number): CacheRead {
    const path = this.pathOf(key);
    if (!identify(path)) return {};
    try {
      const entry = decodeEntry(readBytesSync(path), key);
      if (typeof entry === "string") return { reason: entry };
      touch(path, wallMs);
      return { entry };
    } catch (thrown) {
      return { reason: messageOf(thrown) };
    }
  }

  /** Stores an entry, then drops the least recently used ones beyond the byte bound. */
  async write(key: string, entry: CachedExecutable): Promise<void> {
    const header = new TextEncoder().encode(
      `${JSON.stringify({ key, description: entry.description, launch: entry.launch })}\n`,
    );
    const digest = new Bun.CryptoHasher("sha256").update(header).update(entry.payload).digest("hex");
    await writeAtomically(this.pathOf(key), (write) => {
      write(new TextEncoder().encode(`${MAGIC}${digest}\n`));
      write(header);
      write(entry.payload);
    });
    this.dropLeastRecentlyUsed(key);
  }

  remove(key: string): void {
    removeFile(this.pathOf(key));
    removeFile(this.costPathOf(key));
  }

  /** Device nanoseconds of one execution as stored; undefined when none is, or it is nonsense. */
  readCost(key: string): number | undefined {
    const path = this.costPathOf(key);
    if (!identify(path)) return undefined;
    const costNs = Number(new TextDecoder().decode(readBytesSync(path)));
    return Number.isFinite(costNs) && costNs > 0 ? costNs : undefined;
  }

  async writeCost(key: string, costNs: number): Promise<void> {
    // A cost without its entry would never be dropped.
    if (identify(this.pathOf(key))) await writeBytes(this.costPathOf(key), String(Math.round(costNs)));
  }

  private dropLeastRecentlyUsed(keptKey: string): void {
    const entries = listDirectory(this.directory)
      .filter(({ name }) => name.endsWith(ENTRY_ENDING))
      .map(({ name }) => identify(join(this.directory, name)))
      .filter((identity) => identity !== undefined)
      .sort((a, b) => a.modifiedMs - b.modifiedMs);
    let total = entries.reduce((sum, { byteLength }) => sum + byteLength, 0);
    for (const { path, byteLength } of entries) {
      if (total <= this.byteBound) return;
      if (path === this.pathOf(keptKey)) continue;
      removeFile(path);
      removeFile(`${path.slice(0, -ENTRY_ENDING.length)}${COST_ENDING}`);
      total -= byteLength;
    }
  }

  private pathOf(key: string): string {
    return join(this.directory, `${key}${ENTRY_ENDING}`);
  }

  private costPathOf(key: string): string {
    return join(this.directory, `${key}${COST_ENDING}`);
  }
}

/** The entry, or why the bytes are none of this key. */
function decodeEntry(bytes: Uint8Array, key: string): CachedExecutable | string {
  const digestEnd = MAGIC.length + DIGEST_CHARACTERS;
  const head = new TextDecoder("latin1").decode(bytes.subarray(0, digestEnd));
  if (!head.startsWith(MAGIC)) return "it is not a cached executable of this version";
  const content = bytes.subarray(digestEnd + 1);
  if (sha256(content) !== head.slice(MAGIC.length)) return "its checksum does not match";
  const headerEnd = content.indexOf(0x0a);
  const header = JSON.parse(new TextDecoder().decode(content.subarray(0, headerEnd))) as EntryHeader;
  if (header.key !== key) return "it belongs to another key";
  return { description: header.description, launch: header.launch, payload: content.subarray(headerEnd + 1) };
}

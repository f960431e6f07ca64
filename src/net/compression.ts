// Compressed messages: which encodings there are, and zlib at work, in one go where little comes out, else in pieces on
// the engine's thread pool.
//
// Source: https://github.com/grpc/grpc/blob/master/doc/compression.md. Invariant: inflating a message never makes more
// than its bound and one piece, whatever it claims. Used by `message-inbox.ts`, `reply-outbox.ts` and `grpc-server.ts`.

import {
  constants,
  createGunzip,
  createGzip,
  createInflate,
  type Gzip,
  gunzipSync,
  gzipSync,
  inflateSync,
} from "node:zlib";
import { messageOf, ServerError } from "../base/errors.ts";
import { COMPRESSION_INLINE_BYTES_MAX, COMPRESSION_PIECE_BYTES } from "../base/limits.ts";
import { type ByteSource, Chunks } from "../tensor/byte-source.ts";

/** How a compressed message is compressed, as grpc-encoding names it. `deflate` is the zlib format (RFC 1950). */
export type Encoding = "gzip" | "deflate";

/** What a request says, and we do, about compression. */
export interface CallEncodings {
  /** Of the request's messages that are compressed; undefined when none may be. */
  readonly request: Encoding | undefined;
  /** Of replies that are worth it. */
  readonly reply: "gzip" | undefined;
}

export const NO_COMPRESSION: CallEncodings = { request: undefined, reply: undefined };

/** For grpc-accept-encoding. */
export const SUPPORTED_ENCODINGS = "identity,deflate,gzip";

const INFLATE_SYNC = { gzip: gunzipSync, deflate: inflateSync };
const INFLATE = { gzip: createGunzip, deflate: createInflate };

/** Tensors hardly compress: more effort would cost time and save nothing. */
const GZIP_OPTIONS = { level: constants.Z_BEST_SPEED };

/** The encoding that grpc-encoding names; undefined for identity, "unknown" for what we don't have. */
export function requestEncoding(field: string | undefined): Encoding | undefined | "unknown" {
  if (field === undefined || field === "identity") return undefined;
  return field === "gzip" || field === "deflate" ? field : "unknown";
}

/** Whether a grpc-accept-encoding lists gzip. */
export function acceptsGzip(field: string | undefined): boolean {
  return field?.split(",").some((name) => name.trim() === "gzip") ?? false;
}

/** Whether `bytes` are so few that zlib's work on them needs no thread. */
export function isInline(bytes: number): boolean {
  return bytes <= COMPRESSION_INLINE_BYTES_MAX;
}

/**
 * Inflates a message at once; undefined when it is, or gets, too large for that. Errors: INTERNAL for bytes that are not
 * of this encoding, RESOURCE_EXHAUSTED above `bytesMax`.
 */
export function inflateInline(message: ByteSource, encoding: Encoding, bytesMax: number): ByteSource | undefined {
  if (!isInline(message.byteLength)) return undefined;
  const bound = Math.min(COMPRESSION_INLINE_BYTES_MAX, bytesMax);
  try {
    // zlib takes no bound of 0; one byte too many is found below.
    const bytes = INFLATE_SYNC[encoding](message.contiguous(), { maxOutputLength: Math.max(bound, 1) });
    if (bytes.length > bytesMax) throw tooLarge(bytesMax);
    return Chunks.of(bytes);
  } catch (error) {
    if ((error as { code?: string }).code !== "ERR_BUFFER_TOO_LARGE") throw corrupt(error, encoding);
    if (bound === bytesMax) throw tooLarge(bytesMax);
    return undefined;
  }
}

/**
 * Inflates a message in pieces. `grown` hears of the bytes of each and says whether to go on; if not, the result is
 * undefined. Errors: as inflateInline.
 */
export async function inflate(
  message: ByteSource,
  encoding: Encoding,
  bytesMax: number,
  grown: (bytes: number) => boolean,
): Promise<ByteSource | undefined> {
  const stream = INFLATE[encoding]({ chunkSize: COMPRESSION_PIECE_BYTES });
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for (const chunk of message.chunks) stream.write(chunk);
  stream.end();
  try {
    for await (const piece of stream as AsyncIterable<Uint8Array>) {
      bytes += piece.length;
      if (bytes > bytesMax) throw tooLarge(bytesMax);
      if (!grown(piece.length)) return undefined;
      pieces.push(piece);
    }
  } catch (error) {
    throw corrupt(error, encoding);
  }
  return Chunks.from(pieces);
}

/** Compresses a small reply at once. */
export function gzipInline(chunks: readonly Uint8Array[]): Uint8Array {
  return gzipSync(Chunks.from(chunks).contiguous(), GZIP_OPTIONS);
}

/**
 * Compresses a reply in pieces; `goOn` is asked before each, and without it the result is undefined. When the promise is
 * settled nothing reads `chunks` any more: they may be native memory, which is soon somebody else's.
 */
export async function gzip(chunks: readonly Uint8Array[], goOn: () => boolean): Promise<Uint8Array[] | undefined> {
  const stream = createGzip({ ...GZIP_OPTIONS, chunkSize: COMPRESSION_PIECE_BYTES });
  const pieces: Uint8Array[] = [];
  stream.on("data", (piece: Uint8Array) => pieces.push(piece));
  const ended = new Promise<void>((resolve, reject) => {
    stream.on("end", resolve);
    stream.on("error", reject);
  });
  // Whoever waits for a write hears of the failure.
  ended.catch(() => {});
  for (const chunk of chunks) {
    for (let at = 0; at < chunk.length; at += COMPRESSION_PIECE_BYTES) {
      if (!goOn()) {
        stream.destroy();
        return undefined;
      }
      await write(stream, chunk.subarray(at, at + COMPRESSION_PIECE_BYTES));
    }
  }
  stream.end();
  await ended;
  return pieces;
}

/** Resolves when zlib has read the piece. */
function write(stream: Gzip, piece: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(piece, (error) => (error ? reject(error) : resolve()));
  });
}

function tooLarge(bytesMax: number): ServerError {
  return new ServerError("RESOURCE_EXHAUSTED", `request message exceeds the limit of ${bytesMax} bytes when inflated`);
}

function corrupt(error: unknown, encoding: Encoding): ServerError {
  if (error instanceof ServerError) return error;
  return new ServerError("INTERNAL", `request message is not valid ${encoding}: ${messageOf(error)}`);
}

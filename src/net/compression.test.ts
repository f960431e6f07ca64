// What zlib makes of messages, well-formed and hostile, in one go and in pieces.

import { expect, test } from "bun:test";
import { deflateSync, gunzipSync, gzipSync } from "node:zlib";
import { COMPRESSION_INLINE_BYTES_MAX, COMPRESSION_PIECE_BYTES } from "../base/limits.ts";
import { Chunks } from "../tensor/byte-source.ts";
import {
  acceptsGzip,
  type Encoding,
  gzip,
  gzipInline,
  inflate,
  inflateInline,
  requestEncoding,
} from "./compression.ts";

const always = () => true;

/** Inflates in both ways; they must agree, but that the first leaves what is large. */
async function inflated(bytes: Uint8Array, bytesMax: number, encoding: Encoding = "gzip"): Promise<string | undefined> {
  const outcome = async (attempt: () => unknown) => {
    try {
      const source = (await attempt()) as Chunks | undefined;
      return source && Buffer.from(source.contiguous()).toString();
    } catch (error) {
      return `${(error as { code: string }).code}: ${(error as Error).message}`;
    }
  };
  // Cut where it hurts: zlib gets the bytes one by one.
  const cut = bytes.length < 100 ? Array.from(bytes, (_, at) => bytes.subarray(at, at + 1)) : [bytes];
  const inPieces = await outcome(() => inflate(Chunks.from(cut), encoding, bytesMax, always));
  expect(await outcome(() => inflateInline(Chunks.from(cut), encoding, bytesMax))).toBe(inPieces);
  return inPieces;
}

test("messages come out as they went in, empty ones and several gzip members too", async () => {
  expect(await inflated(gzipSync("hello"), 5)).toBe("hello");
  expect(await inflated(deflateSync("hello"), 5, "deflate")).toBe("hello");
  expect(await inflated(gzipSync(""), 0)).toBe("");
  expect(await inflated(Buffer.concat([gzipSync("ab"), gzipSync(""), gzipSync("cd")]), 4)).toBe("abcd");
});

test("what is not of the encoding is INTERNAL", async () => {
  const whole = gzipSync("hello");
  const damaged = Buffer.from(whole);
  damaged[damaged.length - 6]! ^= 1;
  for (const [bytes, why] of [
    [Buffer.alloc(0), "unexpected end of file"],
    [Buffer.from("plain text"), "incorrect header check"],
    [damaged, "incorrect data check"],
    [Buffer.concat([whole, Buffer.from("more")]), "incorrect header check"],
  ] as const) {
    expect(await inflated(bytes, 100)).toBe(`INTERNAL: request message is not valid gzip: ${why}`);
  }
  for (let bytes = 0; bytes < whole.length; bytes++) {
    expect(await inflated(whole.subarray(0, bytes), 100)).toContain("unexpected end of file");
  }
  expect(await inflated(whole, 100, "deflate")).toContain("INTERNAL: request message is not valid deflate");
});

test("a message that inflates beyond its bound is refused there, by whatever members", async () => {
  const refusal = (bytes: number) =>
    `RESOURCE_EXHAUSTED: request message exceeds the limit of ${bytes} bytes when inflated`;
  expect(await inflated(gzipSync("hello"), 4)).toBe(refusal(4));
  expect(await inflated(gzipSync("h"), 0)).toBe(refusal(0));
  expect(await inflated(Buffer.concat([gzipSync("abc"), gzipSync("de")]), 4)).toBe(refusal(4));

  const bomb = gzipSync(Buffer.alloc(256 << 20));
  let grown = 0;
  const bound = 1 << 20;
  const attempt = inflate(Chunks.of(bomb), "gzip", bound, (bytes) => {
    grown += bytes;
    return true;
  });
  await expect(attempt).rejects.toThrow("exceeds the limit of 1048576 bytes when inflated");
  expect(grown).toBeLessThanOrEqual(bound);
});

test("what is large is left to the thread pool, which stops when it is told to", async () => {
  const large = gzipSync(Buffer.alloc(COMPRESSION_INLINE_BYTES_MAX + 1));
  expect(inflateInline(Chunks.of(large), "gzip", 1 << 20)).toBeUndefined();
  expect(inflateInline(Chunks.of(Buffer.alloc(COMPRESSION_INLINE_BYTES_MAX + 1)), "gzip", 1 << 20)).toBeUndefined();
  const bytes = 4 * COMPRESSION_PIECE_BYTES;
  const message = Chunks.of(gzipSync(Buffer.alloc(bytes, 7)));
  expect((await inflate(message, "gzip", bytes, always))?.contiguous()).toEqual(new Uint8Array(bytes).fill(7));
  let asked = 0;
  expect(await inflate(message, "gzip", bytes, () => ++asked < 2)).toBeUndefined();
  expect(asked).toBe(2);
});

test("replies are compressed, in one go or in pieces", async () => {
  const chunks = [Buffer.alloc(700_000, "abc"), new Uint8Array(0), Buffer.from("end")];
  const whole = Buffer.concat(chunks);
  expect(gunzipSync(gzipInline(chunks)).equals(whole)).toBe(true);
  const pieces = await gzip(chunks, always);
  expect(gunzipSync(Buffer.concat(pieces!)).equals(whole)).toBe(true);
  let asked = 0;
  expect(await gzip(chunks, () => ++asked < 2)).toBeUndefined();
});

test("encodings by name", () => {
  expect([undefined, "identity", "gzip", "deflate", "br"].map(requestEncoding)).toEqual([
    undefined,
    undefined,
    "gzip",
    "deflate",
    "unknown",
  ]);
  expect(["identity,deflate,gzip", "gzip", "identity, gzip", "identity", "xgzip", undefined].map(acceptsGzip)).toEqual([
    true,
    true,
    true,
    false,
    false,
    false,
  ]);
});

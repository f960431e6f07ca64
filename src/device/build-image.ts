// Making a weights image: a file with all arguments in order, each at a 256-byte offset, as the executable wants them.
//
// The image is named after its source's content and layout, and its own digest is recorded when it is built, so that one
// that was altered since is noticed by its identity and built anew; it is written whole or not at all. Blocks for as long
// as the disk and the transposes take: image.thread.ts runs it, image.ts asks for it.

import { join } from "node:path";
import { ServerError } from "../base/errors.ts";
import { identify, makeDirectory, readRange, sameIdentity, sha256, writeAtomically } from "../base/files.ts";
import { WEIGHT_CHUNK_BYTES } from "../base/limits.ts";
import type { WeightArgument, WeightsSource } from "../tensor/weights.ts";
import type { ImageTensor } from "./device.ts";
import { digestOf, isAsRecorded, recordDigest } from "./digests.ts";
import { alignTensor } from "./slab.ts";
import { reverseAxes } from "./transpose.ts";

export interface ImageLayout {
  readonly tensors: readonly ImageTensor[];
  readonly byteLength: number;
}

/** Where each argument lies in an image. */
export function imageLayout(source: WeightsSource): ImageLayout {
  let end = 0;
  const tensors = source.arguments.map(({ name, dtype, shape, byteLength }): ImageTensor => {
    const offset = end;
    end = alignTensor(end + byteLength);
    return { name, dtype, shape, offset, byteLength };
  });
  return { tensors, byteLength: end };
}

/**
 * The first byte of the weights in a file that is laid out like an image already, so that it can be mapped as it is;
 * undefined where it is not.
 */
export function imageOffsetInFile(source: WeightsSource, layout: ImageLayout): number | undefined {
  const start = source.arguments[0]?.fileOffset;
  if (start === undefined || alignTensor(start) !== start) return undefined;
  const alike = source.arguments.every(
    ({ fileOffset, transposed }, index) => !transposed && fileOffset - start === layout.tensors[index]!.offset,
  );
  return alike ? start : undefined;
}

/** The name of an image's content: that of the file it is made from, and how it is arranged. */
export function imageDigest(fileSha256: string, source: WeightsSource): string {
  const arrangement = source.arguments.map(({ dtype, shape, fileOffset, transposed }) => [
    dtype,
    shape,
    fileOffset,
    transposed,
  ]);
  return sha256(new TextEncoder().encode(JSON.stringify([1, fileSha256, arrangement])));
}

export function imagePath(cacheDirectory: string, digest: string): string {
  return join(cacheDirectory, "images", `${digest}.image`);
}

export interface BuiltImage {
  readonly digest: string;
  /** Whether an image was there that is not what was once built, and has been replaced. */
  readonly repaired: boolean;
}

/**
 * Makes sure that the image of `source` exists and is whole, unless the file serves as one.
 * Errors: FAILED_PRECONDITION when the file changes meanwhile, RESOURCE_EXHAUSTED when the disk is full, those of files.
 */
export async function buildImage(
  source: WeightsSource & { file: string },
  cacheDirectory: string,
): Promise<BuiltImage> {
  const before = identify(source.file);
  const digest = imageDigest(await digestOf(source.file, cacheDirectory), source);
  const layout = imageLayout(source);
  const path = imagePath(cacheDirectory, digest);
  if (imageOffsetInFile(source, layout) !== undefined) return { digest, repaired: false };
  if (await isAsRecorded(path, cacheDirectory)) return { digest, repaired: false };
  const repaired = identify(path) !== undefined;
  await makeDirectory(join(cacheDirectory, "images"));
  const hasher = new Bun.CryptoHasher("sha256");
  await writeAtomically(path, (write) => {
    const append = (bytes: Uint8Array) => {
      hasher.update(bytes);
      write(bytes);
    };
    for (const [index, argument] of source.arguments.entries()) {
      writeArgument(source.file, argument, append);
      const { offset, byteLength } = layout.tensors[index]!;
      append(new Uint8Array(alignTensor(offset + byteLength) - offset - byteLength));
    }
    // Not before everything is read: what was digested is what must have been packed.
    const after = identify(source.file);
    if (!before || !after || !sameIdentity(before, after)) throw changed(source.file);
  });
  await recordDigest(path, cacheDirectory, hasher.digest("hex"));
  return { digest, repaired };
}

function writeArgument(file: string, argument: WeightArgument, write: (bytes: Uint8Array) => void): void {
  const { fileOffset, byteLength, dtype, shape, transposed } = argument;
  if (transposed && shape.length > 1) {
    write(reverseAxes(readExactly(file, fileOffset, byteLength), dtype, [...shape].reverse()));
    return;
  }
  for (let at = 0; at < byteLength; at += WEIGHT_CHUNK_BYTES) {
    write(readExactly(file, fileOffset + at, Math.min(WEIGHT_CHUNK_BYTES, byteLength - at)));
  }
}

function readExactly(file: string, offset: number, byteLength: number): Uint8Array {
  const bytes = readRange(file, offset, byteLength);
  if (bytes.byteLength < byteLength) throw changed(file);
  return bytes;
}

function changed(file: string): ServerError {
  return new ServerError("FAILED_PRECONDITION", `'${file}' changed while its weights were read`);
}

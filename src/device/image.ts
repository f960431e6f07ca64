// The weights image (decision 10): all weights of a model in host memory, mapped from a file that nobody else writes.
//
// Built once a host on a thread of its own, found again by digest, mapped in microseconds. A safetensors file that is laid
// out like an image is mapped as it is. The memory stays mapped until the image and every Weights made from it are
// disposed. Used by model/, and by pjrt.ts, which knows where the bytes lie.

import { type Address, bytesAt, offsetAddress } from "../../ffi/memory.ts";
import { NativeMemory } from "../../ffi/posix/native-memory.ts";
import { assert, ServerError } from "../base/errors.ts";
import { identify, withOpenFile } from "../base/files.ts";
import { spawnThread } from "../base/threads.ts";
import type { WeightsSource } from "../tensor/weights.ts";
import { type ImageLayout, imageDigest, imageLayout, imageOffsetInFile, imagePath } from "./build-image.ts";
import type { Image, ImageTensor } from "./device.ts";
import { recordedDigest } from "./digests.ts";
import type { ImageAnswer, ImageRequest } from "./image.thread.ts";
import { fromPlainError } from "./plain-error.ts";

/**
 * The image of a model's weights, built first if this host has none.
 * Errors: NOT_FOUND and the like for the file; FAILED_PRECONDITION when it changes meanwhile or is shorter than its
 * header said; RESOURCE_EXHAUSTED when the disk is full.
 */
export async function openImage(source: WeightsSource, cacheDirectory: string): Promise<Image> {
  const { file } = source;
  assert(file !== undefined, "a model without weights has no image");
  const layout = imageLayout(source);
  const known = recordedDigest(file, cacheDirectory);
  if (known) {
    const image = mapImage({ ...source, file }, layout, imageDigest(known, source), cacheDirectory);
    if (image) return image;
  }
  const digest = await buildOnThread({ source: { ...source, file }, cacheDirectory });
  const image = mapImage({ ...source, file }, layout, digest, cacheDirectory);
  if (!image)
    throw new ServerError("FAILED_PRECONDITION", `the weights image of '${file}' vanished, or the file changed`);
  return image;
}

// One build at a time: two would only share the disk.
let previousBuild: Promise<unknown> = Promise.resolve();

function buildOnThread(request: ImageRequest): Promise<string> {
  const build = previousBuild.then(() => {
    const thread = spawnThread("device/image.thread", { name: "weights image" });
    return new Promise<string>((resolve, reject) => {
      thread.onmessage = ({ data }: MessageEvent<ImageAnswer>) => {
        if (data.digest !== undefined) resolve(data.digest);
        else reject(fromPlainError(data.error));
      };
      thread.onerror = (event) => reject(new ServerError("INTERNAL", `building an image failed: ${event.message}`));
      thread.postMessage(request);
    }).finally(() => thread.terminate());
  });
  previousBuild = build.catch(() => {});
  return build;
}

function mapImage(
  source: WeightsSource & { file: string },
  layout: ImageLayout,
  digest: string,
  cacheDirectory: string,
): MappedImage | undefined {
  const inFile = imageOffsetInFile(source, layout);
  const path = inFile === undefined ? imagePath(cacheDirectory, digest) : source.file;
  const start = inFile ?? 0;
  const last = layout.tensors.at(-1);
  const end = start + (last ? last.offset + last.byteLength : 0);
  // A page beyond the file's end would be a signal, not an error.
  const found = identify(path);
  if (!found || found.byteLength < end) return undefined;
  const memory = end > start ? withOpenFile(path, (fd) => NativeMemory.mapFile(fd, end)) : undefined;
  return new MappedImage(digest, layout, memory, start);
}

/** An image in mapped memory. Each Weights made from it holds it once more. */
export class MappedImage implements Image {
  readonly tensors: readonly ImageTensor[];
  readonly byteLength: number;
  private holds = 1;
  private disposed = false;

  constructor(
    readonly digest: string,
    layout: ImageLayout,
    private readonly memory: NativeMemory | undefined,
    private readonly start: number,
  ) {
    this.tensors = layout.tensors;
    this.byteLength = layout.byteLength;
  }

  /** Where `tensors[index]` lies; for a tensor without bytes, anywhere. */
  tensorAddress(index: number): Address {
    const { offset, byteLength } = this.tensors[index]!;
    const base = this.memory?.address ?? (0 as Address);
    return byteLength === 0 ? base : offsetAddress(base, this.start + offset);
  }

  tensorBytes(index: number): Uint8Array {
    return bytesAt(this.tensorAddress(index), this.tensors[index]!.byteLength);
  }

  /** Keeps the memory mapped until the result is disposed. */
  hold(): Disposable {
    assert(this.holds > 0, "an image is held while it is mapped");
    this.holds++;
    return { [Symbol.dispose]: () => this.release() };
  }

  [Symbol.dispose](): void {
    if (this.disposed) return;
    this.disposed = true;
    this.release();
  }

  private release(): void {
    if (--this.holds === 0) this.memory?.[Symbol.dispose]();
  }
}

// The weights image: all weights of a model in host memory, mapped from a file that nobody else writes.
//
// Built once a host on a thread of its own, found again by digest, mapped in microseconds. A safetensors file that is laid
// out like an image is mapped as it is: replace it by rename, since writing into it changes answers and truncating it kills
// the process. The memory stays mapped until the image and every Weights made from it are disposed. Used by model/, and by
// pjrt.ts, which knows where the bytes lie.

import { type Address, bytesAt, offsetAddress } from "../../ffi/memory.ts";
import { NativeMemory } from "../../ffi/posix/native-memory.ts";
import { assert, ServerError } from "../base/errors.ts";
import { identify, withOpenFile } from "../base/files.ts";
import { type Logger, log as processLog } from "../base/log.ts";
import { spawnThread } from "../base/threads.ts";
import type { WeightsSource } from "../tensor/weights.ts";
import {
  type BuiltImage,
  type ImageLayout,
  imageDigest,
  imageLayout,
  imageOffsetInFile,
  imagePath,
} from "./build-image.ts";
import type { Image, ImageTensor } from "./device.ts";
import { recordedDigest } from "./digests.ts";
import type { ImageAnswer, ImageRequest } from "./image.thread.ts";
import { fromPlainError } from "./plain-error.ts";

/**
 * The image of a model's weights, built first if this host has none, or one that was altered since it was built.
 * Errors: NOT_FOUND and the like for the file; FAILED_PRECONDITION when it changes meanwhile or is shorter than its
 * header said; RESOURCE_EXHAUSTED when the disk is full.
 */
export async function openImage(
  source: WeightsSource,
  cacheDirectory: string,
  log: Logger = processLog,
): Promise<Image> {
  const { file } = source;
  assert(file !== undefined, "a model without weights has no image");
  const layout = imageLayout(source);
  const inFile = imageOffsetInFile(source, layout);
  const map = (digest: string) =>
    inFile === undefined
      ? mapImage(imagePath(cacheDirectory, digest), 0, layout, digest)
      : mapImage(file, inFile, layout, digest);
  const known = recordedDigest(file, cacheDirectory);
  if (known) {
    const digest = imageDigest(known, source);
    const unaltered = inFile !== undefined || recordedDigest(imagePath(cacheDirectory, digest), cacheDirectory);
    const image = unaltered && map(digest);
    if (image) return image;
  }
  const { digest, repaired } = await buildOnThread({ source: { ...source, file }, cacheDirectory });
  if (repaired) {
    const reason = "its content is not what was built, or no record tells";
    log.warn("weights image built anew", { file, image: imagePath(cacheDirectory, digest), reason });
  }
  const image = map(digest);
  if (!image)
    throw new ServerError("FAILED_PRECONDITION", `the weights image of '${file}' vanished, or the file changed`);
  return image;
}

// One build at a time: two would only share the disk.
let previousBuild: Promise<unknown> = Promise.resolve();

function buildOnThread(request: ImageRequest): Promise<BuiltImage> {
  const build = previousBuild.then(() => {
    const thread = spawnThread("device/image.thread", { name: "weights image" });
    return new Promise<BuiltImage>((resolve, reject) => {
      thread.onmessage = ({ data }: MessageEvent<ImageAnswer>) => {
        if (data.built) resolve(data.built);
        else reject(fromPlainError(data.error));
      };
      thread.onerror = (event) => reject(new ServerError("INTERNAL", `building an image failed: ${event.message}`));
      thread.postMessage(request);
    }).finally(() => thread.terminate());
  });
  previousBuild = build.catch(() => {});
  return build;
}

/** The image that starts at byte `start` of the file; undefined where the file is gone or too short. */
function mapImage(path: string, start: number, layout: ImageLayout, digest: string): MappedImage | undefined {
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

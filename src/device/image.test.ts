// The weights image has every argument where the executable wants it, is built once, and survives whatever happens to its source.

import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  appendFileSync,
  closeSync,
  copyFileSync,
  mkdtempSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { liveHandles } from "../../ffi/memory.ts";
import { createLogger } from "../base/log.ts";
import type { WeightArgument, WeightsSource } from "../tensor/weights.ts";
import { type MappedImage, openImage } from "./image.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "xlaserver-image-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const cache = () => join(directory, "cache");
const images = () => readdirSync(join(cache(), "images"));

/** A source whose file has `header` bytes before the tensors; the arguments come in the order given. */
function source(
  header: number,
  tensors: readonly { name: string; shape: number[]; data: Float32Array; transposed?: boolean; at: number }[],
): WeightsSource & { file: string } {
  const file = join(directory, "weights.safetensors");
  const end = Math.max(...tensors.map(({ at, data }) => at + data.byteLength));
  const bytes = new Uint8Array(header + end);
  const list = tensors.map(({ name, shape, data, transposed = false, at }): WeightArgument => {
    bytes.set(new Uint8Array(data.buffer), header + at);
    return { name, dtype: "f32", shape, fileOffset: header + at, byteLength: data.byteLength, transposed };
  });
  writeFileSync(file, bytes);
  return { file, arguments: list };
}

const floats = (image: MappedImage, index: number) => {
  const bytes = image.tensorBytes(index);
  return [...new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4)];
};

const logged: string[] = [];
const log = createLogger({ level: "debug", format: "json", write: (line) => logged.push(line) });
const open = async (from: WeightsSource) => (await openImage(from, cache(), log)) as MappedImage;

const small = () =>
  source(13, [
    { name: "b", shape: [3], data: new Float32Array([7, 8, 9]), at: 16 },
    { name: "a", shape: [2, 2], data: new Float32Array([1, 2, 3, 4]), at: 0 },
  ]);

describe("openImage", () => {
  test("packs arguments in their order at 256-byte offsets, 64-byte aligned in memory", async () => {
    using image = await open(small());
    expect(image.tensors.map(({ name, offset, byteLength }) => [name, offset, byteLength])).toEqual([
      ["b", 0, 12],
      ["a", 256, 16],
    ]);
    expect(image.byteLength).toBe(512);
    expect([floats(image, 0), floats(image, 1)]).toEqual([
      [7, 8, 9],
      [1, 2, 3, 4],
    ]);
    expect(image.tensorAddress(1) % 64).toBe(0);
  });

  test("reverses the axes of a 2.0 bundle's weights", async () => {
    // The file holds shape [3,2]: rows [1,2],[3,4],[5,6]; the argument is tensor<2x3> with 1,3,5,2,4,6.
    const data = new Float32Array([1, 2, 3, 4, 5, 6]);
    using image = await open(source(8, [{ name: "w", shape: [2, 3], data, transposed: true, at: 0 }]));
    expect(floats(image, 0)).toEqual([1, 3, 5, 2, 4, 6]);
  });

  test("builds once and finds the image again", async () => {
    const from = small();
    const digests = await Promise.all([open(from), open(from)]).then((opened) =>
      opened.map((image) => {
        image[Symbol.dispose]();
        return image.digest;
      }),
    );
    expect(digests[0]).toBe(digests[1]!);
    expect(images()).toEqual([`${digests[0]}.image`]);
    using again = await open(from);
    expect(again.digest).toBe(digests[0]!);
  });

  test("maps a file that is laid out like an image as it is", async () => {
    const from = source(256, [
      { name: "a", shape: [2], data: new Float32Array([1, 2]), at: 0 },
      { name: "b", shape: [1], data: new Float32Array([3]), at: 256 },
    ]);
    using image = await open(from);
    expect([floats(image, 0), floats(image, 1)]).toEqual([[1, 2], [3]]);
    expect(readdirSync(cache())).toEqual(["digests"]);
  });

  test("takes a changed file for another one", async () => {
    const from = small();
    using first = await open(from);
    appendFileSync(from.file, "x");
    using second = await open(from);
    expect(second.digest).not.toBe(first.digest);
    expect(floats(second, 0)).toEqual([7, 8, 9]);
  });

  test("builds anew an image that is missing or cut short", async () => {
    const from = small();
    const { digest } = await open(from).then((image) => {
      image[Symbol.dispose]();
      return image;
    });
    truncateSync(join(cache(), "images", `${digest}.image`), 300);
    using repaired = await open(from);
    expect(floats(repaired, 1)).toEqual([1, 2, 3, 4]);
    rmSync(join(cache(), "images"), { recursive: true });
    using remade = await open(from);
    expect(floats(remade, 1)).toEqual([1, 2, 3, 4]);
  });

  test("builds anew, with a line in the log, an image that was written into, or of which nothing is recorded", async () => {
    const from = small();
    const { digest } = await open(from).then((image) => {
      image[Symbol.dispose]();
      return image;
    });
    const path = join(cache(), "images", `${digest}.image`);
    const { size } = statSync(path);
    const file = openSync(path, "r+");
    writeSync(file, new Uint8Array(8).fill(9), 0, 8, 256);
    closeSync(file);
    expect(statSync(path).size).toBe(size);
    logged.length = 0;
    using repaired = await open(from);
    expect(floats(repaired, 1)).toEqual([1, 2, 3, 4]);
    expect(logged.map((line) => JSON.parse(line))).toMatchObject([
      { level: "warn", event: "weights image built anew", file: from.file, image: path },
    ]);
    for (const name of readdirSync(join(cache(), "digests"))) rmSync(join(cache(), "digests", name));
    using again = await open(from);
    expect(floats(again, 1)).toEqual([1, 2, 3, 4]);
    expect(logged).toHaveLength(2);
  });

  test("keeps an image that is another file of the same content, and says nothing", async () => {
    const from = small();
    const { digest } = await open(from).then((image) => {
      image[Symbol.dispose]();
      return image;
    });
    const path = join(cache(), "images", `${digest}.image`);
    copyFileSync(path, `${path}.copy`);
    renameSync(`${path}.copy`, path);
    const { ino } = statSync(path);
    logged.length = 0;
    using moved = await open(from);
    expect(floats(moved, 0)).toEqual([7, 8, 9]);
    using once = await open(from);
    expect(floats(once, 0)).toEqual([7, 8, 9]);
    expect(statSync(path).ino).toBe(ino);
    expect(logged).toEqual([]);
  });

  test("refuses a file that is shorter than its header said, and leaves nothing behind", async () => {
    const from = small();
    truncateSync(from.file, 30);
    expect(await open(from).catch((error) => error)).toMatchObject({ code: "FAILED_PRECONDITION" });
    expect(images()).toEqual([]);
  });

  test("names a file that is not there", async () => {
    const from = small();
    rmSync(from.file);
    const error = await open(from).catch((thrown) => thrown);
    expect(error.code).toBe("NOT_FOUND");
    expect(error.message).toContain("weights.safetensors");
  });

  test("stays mapped until the last holder lets go", async () => {
    const before = liveHandles().mapping ?? 0;
    const image = await open(small());
    const hold = image.hold();
    image[Symbol.dispose]();
    image[Symbol.dispose]();
    expect(floats(image, 0)).toEqual([7, 8, 9]);
    hold[Symbol.dispose]();
    expect(liveHandles().mapping ?? 0).toBe(before);
  });
});

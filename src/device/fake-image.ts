// An Image for the fake device: weights that a test writes down, in collected memory, laid out like a real image.
//
// Used by tests of infer/ and model/ and by the simulator.

import { sha256 } from "../base/files.ts";
import type { TensorType } from "../tensor/signature.ts";
import type { Image, ImageTensor } from "./device.ts";
import { alignTensor } from "./slab.ts";

/** The image of these weights, in argument order. */
export function fakeImage(weights: readonly (TensorType & { name: string; bytes: Uint8Array })[]): Image {
  let end = 0;
  const tensors = weights.map(({ name, dtype, shape, bytes }): ImageTensor => {
    const offset = end;
    end = alignTensor(end + bytes.byteLength);
    return { name, dtype, shape, offset, byteLength: bytes.byteLength };
  });
  return {
    digest: sha256(new TextEncoder().encode(weights.map(({ bytes }) => sha256(bytes)).join())),
    tensors,
    byteLength: end,
    tensorBytes: (index) => weights[index]!.bytes,
    [Symbol.dispose]: () => {},
  };
}

// A thread that builds one weights image: reading, digesting and transposing would hold up everybody else.
//
// It answers one request and is ended by image.ts, which started it.

import type { WeightsSource } from "../tensor/weights.ts";
import { type BuiltImage, buildImage } from "./build-image.ts";
import { type PlainError, toPlainError } from "./plain-error.ts";

declare const self: Worker;

export interface ImageRequest {
  readonly source: WeightsSource & { readonly file: string };
  readonly cacheDirectory: string;
}

export type ImageAnswer = { readonly built: BuiltImage } | { readonly built?: never; readonly error: PlainError };

self.onmessage = async ({ data: { source, cacheDirectory } }: MessageEvent<ImageRequest>) => {
  let answer: ImageAnswer;
  try {
    answer = { built: await buildImage(source, cacheDirectory) };
  } catch (thrown) {
    answer = { error: toPlainError(thrown) };
  }
  self.postMessage(answer);
};

// The hand-written encoder writes what the generated one reads, for every dtype and for replies of any number of
// outputs and chunks; large tensors go out as views.

import { expect, test } from "bun:test";
import { create, equals, fromBinary } from "@bufbuild/protobuf";
import { ModelInferResponseSchema } from "../../proto/gen/grpc_service_pb.ts";
import { randomBytes, randomPieces } from "../../tests/support/infer-messages.ts";
import { Rng } from "../../tests/support/rng.ts";
import { REPLY_COPY_BYTES_MAX } from "../base/limits.ts";
import type { CallTensor, Reply } from "../call/call.ts";
import { Chunks } from "../tensor/byte-source.ts";
import { DTYPE_NAMES, wireName } from "../tensor/dtype.ts";
import { encodeInferResponse } from "./infer-response.ts";

const WIRE_DTYPES = DTYPE_NAMES.filter((dtype) => wireName(dtype) !== undefined);

function randomReply(rng: Rng): Reply {
  const outputs = Array.from({ length: rng.below(4) }, (): CallTensor => {
    const bytes = randomBytes(rng, rng.pick([0, 1, 64, 127, 128, 3000, 20_000]));
    return {
      name: rng.pick(["OUTPUT0", "", "größe", "名前", "y".repeat(200)]),
      dtype: rng.pick(WIRE_DTYPES),
      shape: Array.from({ length: rng.below(5) }, () => rng.pick([0, 1, 127, 128, 16384, 2 ** 31, 2 ** 53 - 1])),
      data: Chunks.from(randomPieces(rng, bytes)),
    };
  });
  return { modelName: rng.pick(["m", "", "模型"]), id: rng.pick(["", "id-1", "🦊"]), outputs, release: () => {} };
}

test("random replies read back with the generated codec", () => {
  const seed = Number(process.env.SEED ?? 5);
  const rng = new Rng(seed);
  for (let index = 0; index < 2000; index++) {
    const reply = randomReply(rng);
    const expected = create(ModelInferResponseSchema, {
      modelName: reply.modelName,
      id: reply.id,
      outputs: reply.outputs.map(({ name, dtype, shape }) => ({
        name,
        datatype: wireName(dtype)!,
        shape: shape.map(BigInt),
      })),
      rawOutputContents: reply.outputs.map(({ data }) => data.contiguous() as Uint8Array<ArrayBuffer>),
    });
    const decoded = fromBinary(ModelInferResponseSchema, Buffer.concat(encodeInferResponse(reply).chunks));
    expect(equals(ModelInferResponseSchema, decoded, expected), `SEED=${seed}, round ${index}`).toBe(true);
    expect(decoded.$unknown).toBeUndefined();
  }
});

function replyOf(...bytes: Uint8Array[]): Reply {
  const outputs = bytes.map((data, index): CallTensor => {
    return { name: `y${index}`, dtype: "u8", shape: [data.length], data: Chunks.of(data) };
  });
  return { modelName: "m", id: "", outputs, release: () => {} };
}

test("large tensors go out as views, small ones in one piece with their header", () => {
  const large = [new Uint8Array(REPLY_COPY_BYTES_MAX), new Uint8Array(10_000)];
  const { chunks, views } = encodeInferResponse(replyOf(...large));
  expect(views).toBe(true);
  expect(chunks.map(({ buffer }) => buffer)).toEqual([
    chunks[0]!.buffer,
    large[0]!.buffer,
    chunks[0]!.buffer,
    large[1]!.buffer,
  ]);

  const small = new Uint8Array(REPLY_COPY_BYTES_MAX);
  const copied = encodeInferResponse(replyOf(small));
  expect(copied.views).toBe(false);
  expect(copied.chunks.length).toBe(1);
});

test("an executable-only dtype and a reply beyond 2 GiB are refused", () => {
  const output = { name: "y", dtype: "f8_e5m2", shape: [1], data: Chunks.of(new Uint8Array(1)) } as const;
  expect(() => encodeInferResponse({ ...replyOf(), outputs: [output] })).toThrow("KServe V2 has no name for");
  const half = {
    ...output,
    dtype: "u8",
    data: { ...Chunks.of(new Uint8Array(1)), byteLength: 2 ** 30 } as never,
  } as const;
  expect(() => encodeInferResponse({ ...replyOf(), outputs: [half, { ...half, name: "z" }] })).toThrow(
    "a message holds at most 2147483647",
  );
});

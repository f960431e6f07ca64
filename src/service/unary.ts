// One RPC that is not ModelInfer: bytes to its message, the answer to bytes, with the generated codec.
//
// Such calls are small and rare, so clarity wins over speed here; ModelInfer has its own codec in wire/.
// Used by kserve.ts for every method but that one, and by the health and reflection services.

import {
  create,
  type DescMessage,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { messageOf, ServerError } from "../base/errors.ts";
import { CONTROL_REQUEST_BYTES_MAX } from "../base/limits.ts";
import type { UnaryMethod } from "../net/unary.ts";
import type { ByteSource } from "../tensor/byte-source.ts";

/** Answers one call: the request's bytes and what the transport knows of it, to the reply's bytes. */
export type UnaryHandler = UnaryMethod["handle"];

/**
 * The handler of a method whose answer is ready at once; `answer` may throw a ServerError.
 * Errors: INVALID_ARGUMENT for bytes that are not the method's request; RESOURCE_EXHAUSTED above 1 MiB of them.
 */
export function unary<I extends DescMessage, O extends DescMessage>(
  method: { readonly input: I; readonly output: O },
  answer: (request: MessageShape<I>) => MessageInitShape<O>,
): UnaryHandler {
  return (bytes) => {
    const reply = create(method.output, answer(decode(method.input, bytes)));
    return { chunks: [toBinary(method.output, reply)] };
  };
}

/** A small request from its bytes. Errors: as unary(). */
export function decode<I extends DescMessage>(schema: I, bytes: ByteSource): MessageShape<I> {
  if (bytes.byteLength > CONTROL_REQUEST_BYTES_MAX) {
    throw new ServerError(
      "RESOURCE_EXHAUSTED",
      `${schema.name}: ${bytes.byteLength} bytes, at most ${CONTROL_REQUEST_BYTES_MAX}`,
    );
  }
  try {
    return fromBinary(schema, bytes.contiguous(), { readUnknownFields: false });
  } catch (thrown) {
    throw new ServerError("INVALID_ARGUMENT", `malformed protobuf: ${schema.name}: ${messageOf(thrown)}`);
  }
}

// ModelInfer: decode -> infer -> encode. The request path's outermost ring, and the only one that knows bytes.
//
// A reply's tensors are views of a slab until net/ has written them, so whoever holds the chunks calls release once.
// A request that is refused before infer/ sees it is counted and logged here, as infer/ does it for the rest.

import { ServerError } from "../base/errors.ts";
import type { Call, Reply } from "../call/call.ts";
import type { Inference } from "../infer/inference.ts";
import { failed } from "../infer/outcome.ts";
import { infer } from "../infer/request.ts";
import type { Model } from "../model/model.ts";
import type { CallContext } from "../net/rpc.ts";
import type { UnaryReply } from "../net/unary.ts";
import type { ByteSource } from "../tensor/byte-source.ts";
import { type Transport, toCall } from "../wire/infer-call.ts";
import { decodeInferRequest, type InferRequest } from "../wire/infer-request.ts";
import { type EncodedReply, encodeInferResponse } from "../wire/infer-response.ts";
import type { UnaryHandler } from "./unary.ts";

/** The handler of ModelInfer. Errors: those of wire/ for the request as such, and those of infer(). */
export function modelInfer(inference: Inference): UnaryHandler {
  return async (bytes, context) => {
    const { model, call } = accept(inference, bytes, transportOf(context, inference.clock.nowNs()));
    return encode(await infer(inference, model, call));
  };
}

function transportOf(context: CallContext, arrivalNs: number): Transport {
  const { deadlineNs } = context;
  return { arrivalNs, deadlineNs, onCancel: (listener) => context.onCancel(listener) };
}

/** A request's Model and Call: it decodes, names a model that is there, then what it says by itself, in this order. */
function accept(inference: Inference, bytes: ByteSource, transport: Transport): { model: Model; call: Call } {
  let request: InferRequest | undefined;
  let model: Model | undefined;
  try {
    request = decodeInferRequest(bytes);
    if (request.modelName === "") throw new ServerError("INVALID_ARGUMENT", "model_name is empty");
    model = inference.registry.bind(request.modelName);
    return { model, call: toCall(request, transport) };
  } catch (thrown) {
    const { id = "", modelName = "" } = request ?? {};
    throw failed(inference, model, { id, modelName, arrivalNs: transport.arrivalNs }, thrown);
  }
}

function encode(reply: Reply): UnaryReply {
  let encoded: EncodedReply;
  try {
    encoded = encodeInferResponse(reply);
  } catch (thrown) {
    reply.release();
    throw thrown;
  }
  const { chunks, views } = encoded;
  if (views) return { chunks, release: reply.release };
  reply.release();
  return { chunks };
}

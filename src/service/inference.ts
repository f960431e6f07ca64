// ModelInfer: decode -> infer -> encode. The request path's outermost ring, and the only one that knows bytes.
//
// A reply's tensors are views of a slab until net/ has written them, so whoever holds the chunks calls release once.
// A request that is refused before infer/ sees it is counted and logged here, as infer/ does it for the rest.

import { ServerError } from "../base/errors.ts";
import type { Call, Reply } from "../call/call.ts";
import { type Inference, infer, refused } from "../infer/request.ts";
import type { Model } from "../model/model.ts";
import type { CallContext } from "../net/rpc.ts";
import type { UnaryReply } from "../net/unary.ts";
import { type Transport, toCall } from "../wire/infer-call.ts";
import { decodeInferRequest, type InferRequest } from "../wire/infer-request.ts";
import { type EncodedReply, encodeInferResponse } from "../wire/infer-response.ts";
import type { UnaryHandler } from "./unary.ts";

/** The handler of ModelInfer. Errors: those of wire/ for the request as such, and those of infer(). */
export function modelInfer(inference: Inference): UnaryHandler {
  return async (bytes, context) => {
    const transport = transportOf(context, inference.clock.nowNs());
    const call = accept(inference, decodeInferRequest(bytes), transport);
    return encode(await infer(inference, call));
  };
}

function transportOf(context: CallContext, arrivalNs: number): Transport {
  const { deadlineNs } = context;
  return { arrivalNs, deadlineNs, onCancel: (listener) => context.onCancel(() => listener()) };
}

/** The Call of a request that names a model: name, existence, then what the request says by itself, in this order. */
function accept(inference: Inference, request: InferRequest, transport: Transport): Call {
  let model: Model | undefined;
  try {
    if (request.modelName === "") throw new ServerError("INVALID_ARGUMENT", "model_name is empty");
    model = inference.registry.bind(request.modelName);
    return toCall(request, transport);
  } catch (thrown) {
    const error = ServerError.from(thrown, `model '${request.modelName}'`);
    const { id, modelName } = request;
    refused(inference, model, { id, modelName, arrivalNs: transport.arrivalNs }, error);
    throw error;
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

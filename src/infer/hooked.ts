// The hooks' part in a request: client tensors to executable inputs before, rows to client outputs after.
//
// A hook runs on its own thread, beside other requests' executions. The end of the request's lifetime ends the wait for
// it. Called by request.ts, only where the model has the hook.

import { ServerError } from "../base/errors.ts";
import type { Call, CallTensor } from "../call/call.ts";
import type { HookRun, HookState } from "../hooks/pool.ts";
import type { Model } from "../model/model.ts";
import { wireName } from "../tensor/dtype.ts";
import type { Lifetime } from "./lifetime.ts";
import { checkBytes } from "./validate.ts";

/** What both hooks of one request share. */
export interface Hooked {
  readonly call: Call;
  readonly lifetime: Lifetime;
  /** What preprocess left for postprocess. */
  state: HookState | undefined;
}

/**
 * What preprocess made of the client's tensors, not yet held against the executable's inputs.
 * Errors: RESOURCE_EXHAUSTED when as many requests of the model wait for their hook as may wait in its queue.
 */
export async function preprocess(
  model: Model,
  inputs: readonly CallTensor[],
  hooked: Hooked,
): Promise<readonly CallTensor[]> {
  const { statistics, queue } = model;
  const { maxQueueDepth } = queue.rules;
  if (statistics.preprocessing >= maxQueueDepth) {
    throw new ServerError(
      "RESOURCE_EXHAUSTED",
      `model '${model.name}': ${statistics.preprocessing} requests wait for its preprocess hook (max_queue_depth ${maxQueueDepth})`,
    );
  }
  statistics.preprocessing++;
  try {
    const made = await follow(model.hooks!.preprocess(inputs, hookRequest(hooked)), hooked);
    for (const tensor of made) checkBytes(model, "preprocess", tensor);
    return made;
  } finally {
    statistics.preprocessing--;
  }
}

/**
 * What postprocess made of this request's rows; the rows may be released once it has settled.
 * Errors: INTERNAL for an output of a dtype that the wire has no name for.
 */
export async function postprocess(
  model: Model,
  outputs: readonly CallTensor[],
  hooked: Hooked,
): Promise<readonly CallTensor[]> {
  const made = await follow(model.hooks!.postprocess(outputs, hookRequest(hooked)), hooked);
  for (const tensor of made) {
    const { name, dtype } = tensor;
    checkBytes(model, "postprocess", tensor);
    if (wireName(dtype) !== undefined) continue;
    const problem = `output '${name}': expected a dtype that clients can receive, received ${dtype}`;
    throw new ServerError("INTERNAL", `model '${model.name}': postprocess hook: ${problem}`);
  }
  return made;
}

function hookRequest({ call, lifetime, state }: Hooked) {
  return { parameters: call.parameters, requestId: call.id, deadlineMs: lifetime.deadlineMs, state };
}

async function follow(run: HookRun, hooked: Hooked): Promise<readonly CallTensor[]> {
  hooked.lifetime.onEnd((error) => run.cancel(error));
  const { tensors, state } = await run.done;
  hooked.lifetime.onEnd(undefined);
  hooked.state = state;
  return tensors;
}

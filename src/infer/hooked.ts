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

/** What both hooks of one request share. */
export interface HookCall {
  readonly call: Call;
  readonly lifetime: Lifetime;
  /** What preprocess left for postprocess. */
  state: HookState | undefined;
}

/** What preprocess made of the client's tensors, not yet held against the executable's inputs. */
export async function preprocess(
  model: Model,
  inputs: readonly CallTensor[],
  hookCall: HookCall,
): Promise<readonly CallTensor[]> {
  return follow(model.hooks!.preprocess(inputs, hookRequest(hookCall)), hookCall);
}

/**
 * What postprocess made of this request's rows; the rows may be released once it has settled.
 * Errors: INTERNAL for an output of a dtype that the wire has no name for.
 */
export async function postprocess(
  model: Model,
  outputs: readonly CallTensor[],
  hookCall: HookCall,
): Promise<readonly CallTensor[]> {
  const made = await follow(model.hooks!.postprocess(outputs, hookRequest(hookCall)), hookCall);
  for (const { name, dtype } of made) {
    if (wireName(dtype) !== undefined) continue;
    const problem = `output '${name}': expected a dtype that clients can receive, received ${dtype}`;
    throw new ServerError("INTERNAL", `model '${model.name}': postprocess hook: ${problem}`);
  }
  return made;
}

function hookRequest({ call, lifetime, state }: HookCall) {
  return { parameters: call.parameters, requestId: call.id, deadlineMs: lifetime.deadlineMs, state };
}

async function follow(run: HookRun, hookCall: HookCall): Promise<readonly CallTensor[]> {
  hookCall.lifetime.onEnd((error) => run.cancel(error));
  const { tensors, state } = await run.done;
  hookCall.lifetime.onEnd(undefined);
  hookCall.state = state;
  return tensors;
}

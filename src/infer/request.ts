// infer: one request from Call to Reply. validate -> preprocess -> enqueue, dispatch -> postprocess.
//
// The outer ring of the spine: it binds the Call to a Model, keeps to the request's lifetime at every stage, and counts
// what became of it. Nothing here knows a protocol. Called by service/inference.ts and by the CLI's in-process infer.

import { ServerError } from "../base/errors.ts";
import type { Call, CallTensor, Reply } from "../call/call.ts";
import type { Model } from "../model/model.ts";
import type { Admission } from "./admission.ts";
import type { Checked } from "./checked.ts";
import type { Dispatcher } from "./dispatch.ts";
import { type Hooked, postprocess, preprocess } from "./hooked.ts";
import type { Inference } from "./inference.ts";
import type { Executed } from "./job.ts";
import { Lifetime } from "./lifetime.ts";
import { failed, succeeded } from "./outcome.ts";
import { checkRequestedOutputs, matchInputs, resolve } from "./validate.ts";

/**
 * Runs a call on the model that its name was bound to (`registry.bind`).
 * Errors: INVALID_ARGUMENT, DEADLINE_EXCEEDED, CANCELLED, RESOURCE_EXHAUSTED (queue, bytes in flight, results, device
 * memory), UNAVAILABLE (stopping), INTERNAL (hook, execution).
 */
export async function infer(inference: Inference, model: Model, call: Call): Promise<Reply> {
  try {
    using lifetime = new Lifetime(call, inference.clock);
    const hooked: Hooked = { call, lifetime, state: undefined };
    using admitted = admit(inference.admission, call.inputs);
    const checked = await validate(model, hooked, admitted);
    const executed = await execute(inference.dispatcher, checked, lifetime);
    const reply = await answer(model, executed, hooked);
    succeeded(inference, model, call, checked.rows, executed);
    return counted(inference.admission, reply);
  } catch (thrown) {
    throw failed(inference, model, call, thrown);
  }
}

/** A request's share of the bytes in flight; given back when disposed. */
interface Admitted extends Disposable {
  /** Adds what a hook made of it. Errors: RESOURCE_EXHAUSTED. */
  grow(tensors: readonly CallTensor[]): void;
}

function admit(admission: Admission, inputs: readonly CallTensor[]): Admitted {
  let byteLength = bytesOf(inputs);
  admission.enter(byteLength);
  return {
    grow(tensors) {
      const more = bytesOf(tensors);
      admission.grow(more);
      byteLength += more;
    },
    [Symbol.dispose]: () => admission.leave(byteLength),
  };
}

/** The reply, among the bytes in flight until it is released. */
function counted(admission: Admission, { modelName, id, outputs, release }: Reply): Reply {
  const byteLength = bytesOf(outputs);
  admission.replying(byteLength);
  return {
    modelName,
    id,
    outputs,
    release() {
      admission.replied(byteLength);
      release();
    },
  };
}

function bytesOf(tensors: readonly CallTensor[]): number {
  return tensors.reduce((sum, { data }) => sum + data.byteLength, 0);
}

/** The request as the executable takes it: checked as the client sent it, then as preprocess made it. */
async function validate(model: Model, hooked: Hooked, admitted: Admitted): Promise<Checked> {
  const { client, executable } = model.bundle;
  const { call } = hooked;
  checkRequestedOutputs(model, call);
  // Without the hook the client's view has the executable's tensors (checked at load), in an order of its own.
  if (!model.hooks?.hasPreprocess) {
    return resolve(model, matchInputs(model, executable.inputs, call.inputs, "client"), "client");
  }
  const made = await preprocess(model, matchInputs(model, client.inputs, call.inputs, "client"), hooked);
  admitted.grow(made);
  return resolve(model, matchInputs(model, executable.inputs, made, "preprocess"), "preprocess");
}

async function execute(dispatcher: Dispatcher, checked: Checked, lifetime: Lifetime): Promise<Executed> {
  if (lifetime.error) throw lifetime.error;
  const job = dispatcher.submit(checked, lifetime.deadlineNs);
  lifetime.onEnd((error) => dispatcher.cancel(job, error));
  return job.done;
}

/** The reply: the executable's rows, or what postprocess made of them; those outputs that were asked for, in order. */
async function answer(model: Model, executed: Executed, hooked: Hooked): Promise<Reply> {
  const { call } = hooked;
  const raw = model.bundle.executable.outputs.map(({ name, dtype }, output): CallTensor => {
    const { shape, data } = executed.results[output]!;
    return { name, dtype, shape, data };
  });
  const { modelName, id } = call;
  if (!model.hooks?.hasPostprocess) {
    return { modelName, id, outputs: selectOutputs(model, call, raw), release: executed.release };
  }
  try {
    const made = await postprocess(model, raw, hooked);
    return { modelName, id, outputs: selectOutputs(model, call, made), release: () => {} };
  } finally {
    executed.release();
  }
}

function selectOutputs(model: Model, call: Call, made: readonly CallTensor[]): CallTensor[] {
  const { requestedOutputs } = call;
  const wanted = requestedOutputs.length > 0 ? requestedOutputs : model.bundle.client.outputs.map(({ name }) => name);
  return wanted.map((name) => {
    const tensor = made.find((candidate) => candidate.name === name);
    if (tensor) return tensor;
    throw new ServerError("INTERNAL", `model '${model.name}': postprocess hook: it did not return output '${name}'`);
  });
}

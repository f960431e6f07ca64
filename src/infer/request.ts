// infer: one request from Call to Reply. validate -> preprocess -> enqueue, dispatch -> postprocess.
//
// The outer ring of the spine: it binds the Call to a Model, keeps to the request's lifetime at every stage, and counts
// what became of it. Nothing here knows a protocol. Called by service/inference.ts and by the CLI's in-process infer.

import type { Clock } from "../base/clock.ts";
import { ServerError, type StatusCode } from "../base/errors.ts";
import type { RequestLog } from "../base/request-log.ts";
import type { Call, CallTensor, Reply } from "../call/call.ts";
import type { Model } from "../model/model.ts";
import type { Registry } from "../model/registry.ts";
import type { Admission } from "./admission.ts";
import type { Checked } from "./checked.ts";
import type { Dispatcher } from "./dispatch.ts";
import { type HookCall, postprocess, preprocess } from "./hooked.ts";
import type { Executed } from "./job.ts";
import { Lifetime } from "./lifetime.ts";
import { checkRequestedOutputs, matchInputs, resolve } from "./validate.ts";

/** What a request needs on its way. One per server. */
export interface Inference {
  readonly registry: Registry;
  readonly dispatcher: Dispatcher;
  readonly admission: Admission;
  readonly clock: Clock;
  /** Undefined when requests are not logged. */
  readonly requestLog: RequestLog | undefined;
  /** Failed requests that named no model of ours, by status; the others are in their model's statistics. */
  readonly unknownModel: Map<StatusCode, number>;
}

/** Counts and logs a request that failed with `error`; `model` is undefined where none has its name. */
export function refused(
  inference: Inference,
  model: Model | undefined,
  request: {
    readonly id: string;
    readonly modelName: string;
    readonly arrivalNs: number;
    readonly rows?: number | undefined;
  },
  error: ServerError,
): void {
  const { id, modelName, arrivalNs, rows } = request;
  const totalNs = inference.clock.nowNs() - arrivalNs;
  if (model) model.statistics.failed(error.code, totalNs);
  else inference.unknownModel.set(error.code, (inference.unknownModel.get(error.code) ?? 0) + 1);
  inference.requestLog?.({ id, model: modelName, status: error.code, rows, totalNs, error });
}

/**
 * Errors: NOT_FOUND, UNAVAILABLE (loading, broken, stopping), INVALID_ARGUMENT, DEADLINE_EXCEEDED, CANCELLED,
 * RESOURCE_EXHAUSTED (queue, bytes in flight, device memory), INTERNAL (hook, execution).
 */
export async function infer(inference: Inference, call: Call): Promise<Reply> {
  const { clock, requestLog } = inference;
  let model: Model | undefined;
  let executed: Executed | undefined;
  let rows: number | undefined;
  try {
    model = inference.registry.bind(call.modelName);
    using lifetime = new Lifetime(call, clock);
    const byteLength = call.inputs.reduce((sum, { data }) => sum + data.byteLength, 0);
    inference.admission.enter(byteLength);
    let reply: Reply;
    try {
      const hookCall: HookCall = { call, lifetime, state: undefined };
      const checked = await validate(model, call, hookCall);
      rows = checked.rows;
      executed = await execute(inference.dispatcher, checked, lifetime);
      reply = await answer(model, call, executed, hookCall);
    } finally {
      inference.admission.leave(byteLength);
    }
    const totalNs = clock.nowNs() - call.arrivalNs;
    model.statistics.served({ rows, totalNs, ...executed.timing }, clock.wallMs());
    const { batchSize: batch, timing } = executed;
    const { queueNs, executeNs: computeNs } = timing;
    requestLog?.({ id: call.id, model: call.modelName, status: "OK", rows, batch, queueNs, computeNs, totalNs });
    return reply;
  } catch (thrown) {
    const error = ServerError.from(thrown, `model '${call.modelName}'`);
    refused(inference, model, { id: call.id, modelName: call.modelName, arrivalNs: call.arrivalNs, rows }, error);
    throw error;
  }
}

/** The request as the executable takes it: checked as the client sent it, then as preprocess made it. */
async function validate(model: Model, call: Call, hookCall: HookCall): Promise<Checked> {
  const { client, executable } = model.bundle;
  checkRequestedOutputs(model, call);
  const inputs = matchInputs(model, client.inputs, call.inputs, "client");
  if (!model.hooks?.hasPreprocess) return resolve(model, inputs, "client");
  const made = await preprocess(model, inputs, hookCall);
  return resolve(model, matchInputs(model, executable.inputs, made, "preprocess"), "preprocess");
}

async function execute(dispatcher: Dispatcher, checked: Checked, lifetime: Lifetime): Promise<Executed> {
  if (lifetime.error) throw lifetime.error;
  const job = dispatcher.submit(checked, lifetime.deadlineNs);
  lifetime.onEnd((error) => dispatcher.cancel(job, error));
  return job.done;
}

/** The reply: the executable's rows, or what postprocess made of them; those outputs that were asked for, in order. */
async function answer(model: Model, call: Call, executed: Executed, hookCall: HookCall): Promise<Reply> {
  const raw = model.bundle.executable.outputs.map(({ name, dtype }, output): CallTensor => {
    const { shape, data } = executed.results[output]!;
    return { name, dtype, shape, data };
  });
  const { modelName, id } = call;
  if (!model.hooks?.hasPostprocess) {
    return { modelName, id, outputs: selectOutputs(model, call, raw), release: executed.release };
  }
  try {
    const made = await postprocess(model, raw, hookCall);
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

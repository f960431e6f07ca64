// The production spine (schedule/, model/, infer/) on the fake device and a virtual clock, for stories about time.
//
// `fakeServing()` gives an Inference with models of one f32 input `x` [n,width] and output `y`; `settle()` turns the
// clock until every request is answered. Used by tests of infer/ and by the simulation.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { VirtualClock } from "../../src/base/clock.ts";
import { createLogger } from "../../src/base/log.ts";
import type { Bundle } from "../../src/bundle/bundle.ts";
import { type Call, NO_PARAMETERS, type Parameters, type Reply } from "../../src/call/call.ts";
import { FakeDevice, type FakeOptions } from "../../src/device/fake.ts";
import type { HookPool } from "../../src/hooks/pool.ts";
import { Admission } from "../../src/infer/admission.ts";
import { Dispatcher } from "../../src/infer/dispatch.ts";
import type { Inference } from "../../src/infer/inference.ts";
import { infer } from "../../src/infer/request.ts";
import { loadModel, type ModelHost, type ModelLimits } from "../../src/model/load.ts";
import { Registry } from "../../src/model/registry.ts";
import { Fifo } from "../../src/schedule/fifo.ts";
import { Scheduler } from "../../src/schedule/scheduler.ts";
import { Chunks } from "../../src/tensor/byte-source.ts";
import type { TensorSpec } from "../../src/tensor/signature.ts";

export interface FakeModelRecipe {
  readonly name: string;
  readonly sizes: readonly number[];
  readonly width?: number;
  readonly costNs?: number;
  /** A named operation of the device; `identity` by default. */
  readonly operation?: string;
  readonly limits?: Partial<ModelLimits>;
}

export interface FakeServing extends AsyncDisposable {
  readonly clock: VirtualClock;
  readonly device: FakeDevice;
  readonly inference: Inference;
  readonly dispatcher: Dispatcher;
  /** Sends `rows` rows, the values counting up from `first`; the client can cancel by calling `cancel`. */
  send(model: string, rows: number, first?: number, options?: SendOptions): Sent;
  /** Turns the clock until nothing is left to happen. */
  settle(): Promise<void>;
}

export interface SendOptions {
  readonly width?: number;
  readonly deadlineNs?: number;
  readonly parameters?: Parameters;
}

export interface Sent {
  readonly reply: Promise<Reply>;
  readonly cancel: () => void;
}

const silent = createLogger({ level: "error", format: "json", write: () => {} });

function spec(name: string, width: number): TensorSpec {
  const axes = [
    { letter: "n", kind: "batch", size: -1 },
    { letter: "d", kind: "fixed", size: width },
  ] as const;
  return { name, dtype: "f32", axes, batchAxis: 0, reversed: false };
}

function fakeBundle(directory: string, recipe: FakeModelRecipe): Bundle {
  const width = recipe.width ?? 4;
  const modules = recipe.sizes.map((batchSize) => {
    const path = join(directory, `${recipe.name}.b${batchSize}.json`);
    const type = { dtype: "f32", shape: [batchSize, width] };
    const { operation = "identity", costNs } = recipe;
    writeFileSync(path, JSON.stringify({ parameters: [type], results: [type], operation, costNs }));
    return { variant: 0, batchSize, path };
  });
  const signature = { inputs: [spec("x", width)], outputs: [spec("y", width)] };
  return {
    name: recipe.name,
    directory,
    formatVersion: "3.0",
    description: "",
    executable: signature,
    client: signature,
    variants: [{ sizes: {} }],
    modules,
    weights: { file: undefined, arguments: [] },
    compiledBatchSizes: recipe.sizes,
    maxQueueDelayUs: 0,
    priorityLevels: 1,
    warmup: false,
    compileOptions: {},
    hooks: undefined,
    provenance: {},
    warnings: [],
  };
}

function hostOf(recipe: FakeModelRecipe, device: FakeDevice, scheduler: Scheduler, clock: VirtualClock): ModelHost {
  const limits = { maxBatchSize: Infinity, maxQueueDepth: 1e6, maxQueueDelayUs: undefined, ...recipe.limits };
  return {
    device,
    scheduler,
    clock,
    log: silent,
    limits: () => limits,
    costEmaAlpha: 0.2,
    hooks: undefined as unknown as HookPool,
    openImage: () => Promise.reject(new Error("fake models have no weights")),
  };
}

function callOf(
  modelName: string,
  rows: number,
  first: number,
  arrivalNs: number,
  { width = 4, deadlineNs, parameters = NO_PARAMETERS }: SendOptions,
  onCancel: Call["onCancel"],
): Call {
  const numbers = Float32Array.from({ length: rows * width }, (_, index) => first + index);
  const data = Chunks.of(new Uint8Array(numbers.buffer));
  const inputs = [{ name: "x", dtype: "f32", shape: [rows, width], data }] as const;
  return { modelName, id: "", parameters, inputs, requestedOutputs: [], arrivalNs, deadlineNs, onCancel };
}

export async function fakeServing(
  recipes: readonly FakeModelRecipe[],
  options: Partial<FakeOptions> & { maxInflightBytes?: number } = {},
): Promise<FakeServing> {
  const directory = mkdtempSync(join(tmpdir(), "xlaserver-fake-"));
  const clock = new VirtualClock();
  const device = new FakeDevice({ clock, bandwidth: 1e10, compileNs: 0, executeNs: () => 1e6, ...options });
  const scheduler = new Scheduler(new Fifo());
  const resultBytesMax = Number.POSITIVE_INFINITY;
  const dispatcher = new Dispatcher({ device, scheduler, clock, log: silent, resultBytesMax });
  const registry = new Registry();
  const admission = new Admission(options.maxInflightBytes ?? Infinity);
  for (const recipe of recipes) {
    const host = hostOf(recipe, device, scheduler, clock);
    registry.admit(await loadModel(fakeBundle(directory, recipe), 1, host));
  }
  const inference: Inference = {
    registry,
    dispatcher,
    admission,
    clock,
    log: silent,
    requestLog: undefined,
    unknownModel: new Map(),
  };
  let open = 0;
  return {
    clock,
    device,
    inference,
    dispatcher,
    send(model, rows, first = 0, options = {}) {
      let cancel = () => {};
      const call = callOf(model, rows, first, clock.nowNs(), options, (listener) => {
        cancel = listener;
      });
      open++;
      const reply = infer(inference, registry.bind(model), call).finally(() => open--);
      reply.catch(() => {});
      return { reply, cancel: () => cancel() };
    },
    async settle() {
      // Promise chains between two timers are short; a turn of the real event loop runs them out.
      for (;;) {
        await new Promise((resolve) => setImmediate(resolve));
        if (open === 0 && clock.nextNs() === undefined) return;
        if (!clock.step() && open > 0) throw new Error(`${open} requests wait for something that never happens`);
      }
    },
    async [Symbol.asyncDispose]() {
      await registry[Symbol.asyncDispose]();
      await device[Symbol.asyncDispose]();
      rmSync(directory, { recursive: true });
    },
  };
}

/** A reply's only output as numbers; releases the reply. */
export function values(reply: Reply): number[] {
  const bytes = reply.outputs[0]!.data.contiguous().slice();
  reply.release();
  return [...new Float32Array(bytes.buffer)];
}

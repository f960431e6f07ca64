// The production spine (schedule/, model/, infer/) on the fake device and a virtual clock, for stories about time.
//
// `fakeServing()` gives an Inference with models of one f32 input `x` [n,width] and output `y`; `settle()` turns the
// clock until every request is answered. Used by tests of infer/ and by the simulation.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Clock, VirtualClock } from "../../src/base/clock.ts";
import { createLogger, type Logger } from "../../src/base/log.ts";
import { type Call, NO_PARAMETERS, type Parameters, type Reply } from "../../src/call/call.ts";
import { FakeDevice, type FakeOptions } from "../../src/device/fake.ts";
import type { HookPool } from "../../src/hooks/pool.ts";
import { Admission } from "../../src/infer/admission.ts";
import { Dispatcher } from "../../src/infer/dispatch.ts";
import type { Inference } from "../../src/infer/inference.ts";
import { infer } from "../../src/infer/request.ts";
import { loadModel, type ModelHost } from "../../src/model/load.ts";
import { Registry } from "../../src/model/registry.ts";
import { Fifo } from "../../src/schedule/fifo.ts";
import { Scheduler } from "../../src/schedule/scheduler.ts";
import { Chunks } from "../../src/tensor/byte-source.ts";
import { DEFAULT_WIDTH, type FakeModelRecipe, fakeBundle, shapeOf } from "./fake-bundle.ts";

export type { FakeModelRecipe } from "./fake-bundle.ts";

export interface SendOptions {
  readonly width?: number;
  readonly deadlineNs?: number;
  readonly parameters?: Parameters;
}

export interface Sent {
  readonly reply: Promise<Reply>;
  readonly cancel: () => void;
}

function hostOf(
  recipe: FakeModelRecipe,
  device: FakeDevice,
  scheduler: Scheduler,
  clock: Clock,
  log: Logger,
): ModelHost {
  const limits = { maxBatchSize: Infinity, maxQueueDepth: 1e6, maxQueueDelayUs: undefined, ...recipe.limits };
  return {
    device,
    scheduler,
    clock,
    log,
    limits: () => limits,
    costEmaAlpha: 0.2,
    hooks: undefined as unknown as HookPool,
    openImage: () => Promise.reject(new Error("fake models have no weights")),
  };
}

export interface FakeServingOptions extends Partial<FakeOptions> {
  readonly maxInflightBytes?: number;
  readonly resultBytesMax?: number;
}

/** Opens a server without sockets, with a model for each recipe. */
export async function fakeServing(
  recipes: readonly FakeModelRecipe[],
  options: FakeServingOptions = {},
): Promise<FakeServing> {
  const serving = new FakeServing(options);
  for (const recipe of recipes) await serving.add(recipe);
  return serving;
}

export class FakeServing implements AsyncDisposable {
  readonly clock = new VirtualClock();
  readonly device: FakeDevice;
  readonly inference: Inference;
  /** Every line of the log. */
  readonly logged: string[] = [];
  private readonly directory = mkdtempSync(join(tmpdir(), "xlaserver-fake-"));
  private readonly scheduler = new Scheduler(new Fifo());
  private readonly recipes = new Map<string, FakeModelRecipe>();
  private readonly log = createLogger({ level: "error", format: "json", write: (line) => this.logged.push(line) });
  private open = 0;

  constructor(options: FakeServingOptions) {
    const { clock, log, scheduler } = this;
    const { resultBytesMax = Infinity, maxInflightBytes = Infinity } = options;
    this.device = new FakeDevice({ clock, bandwidth: 1e10, compileNs: 0, executeNs: () => 1e6, ...options });
    this.inference = {
      registry: new Registry(),
      dispatcher: new Dispatcher({ device: this.device, scheduler, clock, log, resultBytesMax }),
      admission: new Admission(maxInflightBytes),
      clock,
      log,
      requestLog: undefined,
      unknownModel: new Map(),
    };
  }

  async add(recipe: FakeModelRecipe): Promise<void> {
    this.recipes.set(recipe.name, recipe);
    const host = hostOf(recipe, this.device, this.scheduler, this.clock, this.log);
    this.inference.registry.admit(await loadModel(fakeBundle(this.directory, recipe), 1, host));
  }

  /** Sends `rows` rows, the values counting up from `first`; the client can cancel by calling `cancel`. */
  send(name: string, rows: number, first = 0, options: SendOptions = {}): Sent {
    const { width = DEFAULT_WIDTH, deadlineNs, parameters = NO_PARAMETERS } = options;
    const numbers = Float32Array.from({ length: rows * width }, (_, index) => first + index);
    const data = Chunks.of(new Uint8Array(numbers.buffer));
    let cancel = () => {};
    const call: Call = {
      modelName: name,
      id: "",
      parameters,
      inputs: [{ name: "x", dtype: "f32", shape: shapeOf(this.recipes.get(name)!, rows, width), data }],
      requestedOutputs: [],
      arrivalNs: this.clock.nowNs(),
      deadlineNs,
      onCancel: (listener) => {
        cancel = () => listener("peer");
      },
    };
    this.open++;
    const reply = infer(this.inference, this.inference.registry.bind(name), call).finally(() => this.open--);
    reply.catch(() => {});
    return { reply, cancel: () => cancel() };
  }

  /** Turns the clock until nothing is left to happen. Throws when a request waits for something that never will. */
  async settle(): Promise<void> {
    for (;;) {
      // Promise chains between two timers are short; a turn of the real event loop runs them out.
      await new Promise((resolve) => setImmediate(resolve));
      if (this.open === 0 && this.clock.nextNs() === undefined) return;
      if (!this.clock.step() && this.open > 0) throw new Error(`${this.open} requests wait for what never happens`);
    }
  }

  /** Throws when a slab is still leased: a reply that nobody released, or a leak. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.inference.registry[Symbol.asyncDispose]();
    const { slabsLeased } = this.device;
    await this.device[Symbol.asyncDispose]();
    rmSync(this.directory, { recursive: true });
    if (slabsLeased > 0) throw new Error(`${slabsLeased} slabs are still leased`);
  }
}

/** A reply's only output as numbers; releases the reply. */
export function values(reply: Reply): number[] {
  const bytes = reply.outputs[0]!.data.contiguous().slice();
  reply.release();
  return [...new Float32Array(bytes.buffer)];
}

// load: a Bundle made a Model: compiled, checked, weights on the device, hooks on their threads, warmed up.
//
// All or nothing: what was acquired before a failure is given back, and the failure says which file or module it was.
// Called by repository.ts for each bundle.

import type { Clock } from "../base/clock.ts";
import { IssuesError } from "../base/errors.ts";
import { readBytes } from "../base/files.ts";
import type { Logger } from "../base/log.ts";
import type { Bundle } from "../bundle/bundle.ts";
import type { Device, Executable, Image, Weights } from "../device/device.ts";
import type { HookPool, HookSet } from "../hooks/pool.ts";
import type { Scheduler } from "../schedule/scheduler.ts";
import type { BatchRules } from "../schedule/ticket.ts";
import type { WeightsSource } from "../tensor/weights.ts";
import { checkClientView } from "./client-view.ts";
import type { Model } from "./model.ts";
import { checkSignature } from "./signature.ts";
import { ModelStatistics } from "./statistics.ts";
import { isCoalescable, makeUnit, type Unit } from "./unit.ts";

// What an execution costs beside the device's own time: select, slab, messages between threads, settling. Without it a
// model of a few microseconds would look cheapest one row at a time.
const HAND_OVER_NS = 50_000;

/** What a server gives its models: the device they share, and their limits. */
export interface ModelHost {
  readonly device: Device;
  readonly hooks: HookPool;
  readonly scheduler: Scheduler;
  readonly clock: Clock;
  readonly log: Logger;
  /** Builds or maps the image of a bundle's weights. */
  readonly openImage: (source: WeightsSource) => Promise<Image>;
  readonly limits: (name: string) => ModelLimits;
  /** What the newest measurement counts in an estimated cost, in (0, 1]. */
  readonly costEmaAlpha: number;
}

/** The operator's limits of one model. */
export interface ModelLimits {
  readonly maxBatchSize: number;
  readonly maxQueueDepth: number;
  /** Undefined: as the bundle says. */
  readonly maxQueueDelayUs: number | undefined;
}

/** Errors: IssuesError for a signature that differs; else those of the device, the image, the hooks. */
export async function loadModel(bundle: Bundle, generation: number, host: ModelHost): Promise<Model> {
  await using acquired = new AsyncDisposableStack();
  const executables = await loadExecutables(bundle, host.device, acquired);
  const units = bundle.variants.map((_, variant) =>
    bundle.modules.flatMap((module, index) =>
      module.variant === variant ? makeUnit(bundle, module, executables[index]!, host.costEmaAlpha) : [],
    ),
  );
  const weights = await loadWeights(bundle, host, acquired);
  const hooks = await loadHooks(bundle, generation, host, acquired);
  const issues = checkClientView(bundle, hooks);
  if (issues.length > 0) throw new IssuesError(bundle.name, issues);
  const queue = host.scheduler.addModel(batchRules(bundle, units, host.limits(bundle.name)));
  const owned = acquired.move();
  const model: Model = {
    name: bundle.name,
    generation,
    bundle,
    queue,
    units,
    weights,
    hooks,
    statistics: new ModelStatistics(),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
  try {
    if (bundle.warmup) await warmUp(model, host);
  } catch (thrown) {
    await owned.disposeAsync();
    throw thrown;
  }
  return model;
}

async function loadExecutables(
  bundle: Bundle,
  device: Device,
  acquired: AsyncDisposableStack,
): Promise<readonly Executable[]> {
  const loads = await Promise.allSettled(
    bundle.modules.map(async ({ path }) => {
      const label = `${bundle.name}/${path.slice(bundle.directory.length + 1)}`;
      return device.loadExecutable({ label, bytes: await readBytes(path), compileOptions: bundle.compileOptions });
    }),
  );
  const executables = loads.flatMap((load) => (load.status === "fulfilled" ? [acquired.use(load.value)] : []));
  const failure = loads.find((load) => load.status === "rejected");
  if (failure) throw failure.reason;
  const issues = executables.flatMap((executable, index) =>
    checkSignature(bundle, bundle.modules[index]!, executable.parameters, executable.results),
  );
  if (issues.length > 0) throw new IssuesError(bundle.name, issues);
  return executables;
}

async function loadWeights(
  bundle: Bundle,
  host: ModelHost,
  acquired: AsyncDisposableStack,
): Promise<Weights | undefined> {
  if (bundle.weights.arguments.length === 0) return undefined;
  // The image stays mapped as long as the weights may refer to it (CPU zero-copy); both go with the model.
  const image = acquired.use(await host.openImage(bundle.weights));
  return acquired.use(await host.device.loadWeights(image));
}

async function loadHooks(
  bundle: Bundle,
  generation: number,
  host: ModelHost,
  acquired: AsyncDisposableStack,
): Promise<HookSet | undefined> {
  if (!bundle.hooks) return undefined;
  const { name, directory } = bundle;
  const { file, timeLimitMs } = bundle.hooks;
  return acquired.use(await host.hooks.load({ name, generation, directory, file, timeLimitMs }));
}

function batchRules(bundle: Bundle, units: readonly (readonly Unit[])[], limits: ModelLimits): BatchRules {
  const sizes = units.map((ofVariant) => ofVariant.map((unit) => unit.batchSize));
  return {
    name: bundle.name,
    sizes,
    coalescable: isCoalescable(bundle),
    maxBatchSize: limits.maxBatchSize,
    maxQueueDelayNs: (limits.maxQueueDelayUs ?? bundle.maxQueueDelayUs) * 1e3,
    maxQueueDepth: limits.maxQueueDepth,
    costNs: (variant, size) => {
      const learnedNs = units[variant]!.find(({ batchSize }) => batchSize === size)?.cost.ns;
      return learnedNs === undefined ? undefined : learnedNs + HAND_OVER_NS;
    },
  };
}

/** Runs each unit without a stored cost on zeros: once to make everything resident, once more to seed the estimate. */
async function warmUp(model: Model, { device, clock, log }: ModelHost): Promise<void> {
  for (const unit of model.units.flat()) {
    if (unit.cost.ns !== undefined) continue;
    const startNs = clock.nowNs();
    const slab = await device.leaseSlab(unit.layout);
    try {
      for (const input of slab.inputs) input.fill(0);
      await device.run(unit.executable, model.weights, slab);
      const { executeNs } = await device.run(unit.executable, model.weights, slab);
      unit.cost.learn(executeNs);
      unit.executable.storeCost(executeNs);
    } finally {
      slab.release();
    }
    const { variant, batchSize } = unit;
    log.debug("warmed up", { model: model.name, variant, batch: batchSize, ms: (clock.nowNs() - startNs) / 1e6 });
  }
}

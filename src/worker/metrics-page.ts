// The /metrics page: what the rooms count anyway, gathered at each scrape.
//
// Nothing is kept here between scrapes. Used by server.ts.

import type { StatusCode } from "../base/errors.ts";
import type { Config } from "../config/config.ts";
import { METRICS_CONTENT_TYPE } from "../metrics/prometheus-text.ts";
import { gpuSelector, type WorkerInfo, type WorkerSnapshot, workerMetricsText } from "../metrics/worker-metrics.ts";
import { maxBatchSize } from "../model/model.ts";
import type { Page } from "../net/http.ts";
import type { Core } from "./core.ts";

/** The page while `core` serves; without models before it is open. */
export function metricsPage(config: Config, core: Core | undefined): Page {
  const body = workerMetricsText(infoOf(config), snapshotOf(core));
  return { status: 200, contentType: METRICS_CONTENT_TYPE, body };
}

function infoOf(config: Config): WorkerInfo {
  const { backend, deviceOrdinal } = config.runtime;
  return {
    worker: config.name,
    gpu: gpuSelector(backend, deviceOrdinal, process.env.CUDA_VISIBLE_DEVICES),
    deviceOrdinal,
    controlMode: config.modelControlMode,
    discipline: config.scheduler.discipline,
    // Until weights are loaded on demand, every model's stay on the device.
    residencyMode: "self_managed",
    maxInflightBytes: config.endpoints.maxInflightBytes,
  };
}

const NONE: ReadonlyMap<StatusCode, number> = new Map();

function snapshotOf(core: Core | undefined): WorkerSnapshot {
  const admission = core?.inference.admission;
  return {
    models: (core?.registry.models() ?? []).map((model) => ({
      name: model.name,
      counters: model.statistics,
      queueDepth: model.queue.depth,
      resident: true,
      pinned: true,
      weightBytes: model.weights?.byteLength ?? 0,
      maxBatchSize: maxBatchSize(model),
    })),
    unknownModel: core?.inference.unknownModel ?? NONE,
    memory: core?.device.memoryStatistics(),
    slabs: core?.device.slabUsage(),
    hooks: core?.hooks.counters,
    inflightRequests: admission?.inflight ?? 0,
    inflightBytes: admission?.inflightBytes ?? 0,
    shedRequests: admission?.shed ?? 0,
  };
}

// A worker's series (the names of the reference system, so that its dashboards fit), read from counters at each scrape.
//
// Nothing here runs while requests are served: a source hands out what the server counts anyway. Series of a model
// vanish with it. worker/ builds the source; the metrics endpoint asks for the text.

import type { StatusCode } from "../base/errors.ts";
import { LATENCY_BOUNDS_S, type LatencyHistogram } from "./latency-histogram.ts";
import { processFamilies } from "./process-metrics.ts";
import { type Family, histogramSamples, type Labels, renderFamilies, type Sample } from "./prometheus-text.ts";

/** What one model has done; model/'s ModelStatistics is one. */
export interface ModelCounters {
  readonly dispatches: number;
  readonly computeNs: number;
  /** Executed rows, padding left out. */
  readonly rows: number;
  readonly success: { readonly count: number };
  /** Finished requests by status. */
  readonly byStatus: ReadonlyMap<StatusCode, number>;
  readonly latency: LatencyHistogram;
  /** The q-quantile of recent queue waits in nanoseconds. */
  waitNs(q: number): number;
}

export interface ModelSnapshot {
  readonly name: string;
  readonly counters: ModelCounters;
  readonly queueDepth: number;
  readonly resident: boolean;
  readonly pinned: boolean;
  readonly weightBytes: number;
  /** The largest batch that one execution takes; 0 where requests are never coalesced. */
  readonly maxBatchSize: number;
}

/** Bytes; undefined where the allocator does not report. */
export interface MemorySnapshot {
  readonly inUse: number;
  readonly peakInUse: number | undefined;
  readonly limit: number | undefined;
  readonly poolBytes: number | undefined;
}

export interface WorkerSnapshot {
  readonly models: readonly ModelSnapshot[];
  /** Finished requests that named no model of ours, by status: they have the model label "". */
  readonly unknownModel: ReadonlyMap<StatusCode, number>;
  readonly memory: MemorySnapshot | undefined;
  /** Host memory of batches and of replies that are not written yet; undefined before the device is open. */
  readonly slabs: { readonly leased: number; readonly waiting: number; readonly heldBytes: number } | undefined;
  /** The hook threads and what they did; undefined before they can start. */
  readonly hooks: HookSnapshot | undefined;
  readonly inflightRequests: number;
  readonly inflightBytes: number;
  /** Requests refused since they would have passed maxInflightBytes. */
  readonly shedRequests: number;
}

export interface HookSnapshot {
  readonly completed: number;
  readonly failed: number;
  readonly overTime: number;
  readonly overMemory: number;
  readonly threadsLost: number;
  readonly threads: number;
  readonly running: number;
  readonly waiting: number;
}

/** What does not change while the worker lives. */
export interface WorkerInfo {
  readonly worker: string;
  /** The device's physical selector (gpuSelector); undefined on cpu. */
  readonly gpu: string | undefined;
  readonly deviceOrdinal: number;
  readonly controlMode: string;
  readonly discipline: string;
  readonly residencyMode: string;
  readonly maxInflightBytes: number;
}

const NS_PER_S = 1e9;
const QUANTILES = [0.5, 0.99];

/**
 * How operators know the device: the only token of CUDA_VISIBLE_DEVICES, else the token at the ordinal, else the
 * ordinal itself. Undefined on cpu.
 */
export function gpuSelector(backend: string, ordinal: number, visibleDevices: string | undefined): string | undefined {
  if (backend === "cpu") return undefined;
  const tokens = (visibleDevices ?? "").split(",").flatMap((token) => token.trim() || []);
  return tokens.length === 1 ? tokens[0] : (tokens[ordinal] ?? String(ordinal));
}

/** The text of one scrape; its content type is METRICS_CONTENT_TYPE. */
export function workerMetricsText(
  info: WorkerInfo,
  snapshot: WorkerSnapshot,
  process: readonly Family[] = processFamilies(),
): string {
  const common: Labels = { worker: info.worker, ...(info.gpu === undefined ? {} : { gpu: info.gpu }) };
  const families = [
    ...modelFamilies(snapshot.models),
    ...requestFamilies(snapshot),
    ...workerFamilies(info, snapshot),
    ...memoryFamilies(snapshot.memory),
    ...slabFamilies(snapshot.slabs),
    ...hookFamilies(snapshot.hooks),
  ];
  return renderFamilies([...families, ...process], common);
}

function modelFamilies(models: readonly ModelSnapshot[]): Family[] {
  const each = (value: (model: ModelSnapshot) => number): Sample[] =>
    models.map((model) => ({ labels: { model: model.name }, value: value(model) }));
  const waits = models.flatMap(({ name, counters }) =>
    QUANTILES.map((q) => ({ labels: { model: name, quantile: String(q) }, value: counters.waitNs(q) / NS_PER_S })),
  );
  return [
    counter(
      "worker_dispatch_total",
      "Executions.",
      each(({ counters }) => counters.dispatches),
    ),
    counter(
      "worker_compute_seconds_total",
      "Device time.",
      each(({ counters }) => counters.computeNs / NS_PER_S),
    ),
    counter(
      "worker_requests_served_total",
      "Requests served.",
      each(({ counters }) => counters.success.count),
    ),
    counter(
      "worker_rows_served_total",
      "Rows executed, padding left out.",
      each(({ counters }) => counters.rows),
    ),
    gauge(
      "worker_queue_depth",
      "Requests waiting.",
      each(({ queueDepth }) => queueDepth),
    ),
    gauge("worker_queue_wait_seconds", "Recent waits in the queue.", waits),
    gauge(
      "worker_model_resident",
      "1 if the weights are on the device.",
      each(({ resident }) => Number(resident)),
    ),
    gauge(
      "worker_model_pinned",
      "1 if the weights stay on the device.",
      each(({ pinned }) => Number(pinned)),
    ),
    gauge(
      "worker_model_weight_bytes",
      "Bytes of weights.",
      each(({ weightBytes }) => weightBytes),
    ),
    gauge(
      "worker_model_max_batch_size",
      "Largest batch; 0 if never coalesced.",
      each((model) => model.maxBatchSize),
    ),
  ];
}

function requestFamilies({ models, unknownModel }: WorkerSnapshot): Family[] {
  const byStatus = (model: string, counts: ReadonlyMap<StatusCode, number>): Sample[] =>
    [...counts].map(([status, value]) => ({ labels: { model, status }, value }));
  return [
    counter("worker_requests_total", "Finished requests by gRPC status.", [
      ...models.flatMap(({ name, counters }) => byStatus(name, counters.byStatus)),
      ...byStatus("", unknownModel),
    ]),
    {
      name: "worker_request_latency_seconds",
      type: "histogram",
      help: "ModelInfer from end to end.",
      samples: models.flatMap(({ name, counters: { latency } }) =>
        histogramSamples({ model: name }, LATENCY_BOUNDS_S, latency.counts, latency.sumNs / NS_PER_S),
      ),
    },
  ];
}

function workerFamilies(info: WorkerInfo, snapshot: WorkerSnapshot): Family[] {
  const resident = snapshot.models.filter((model) => model.resident);
  const residentBytes = resident.reduce((sum, { weightBytes }) => sum + weightBytes, 0);
  return [
    gauge("worker_models_loaded", "Models that are served.", one(snapshot.models.length)),
    gauge("worker_models_resident", "Models whose weights are on the device.", one(resident.length)),
    gauge("worker_resident_weight_bytes", "Bytes of weights on the device.", one(residentBytes)),
    gauge("worker_inflight_requests", "Inference requests in flight.", one(snapshot.inflightRequests)),
    gauge("worker_inflight_bytes", "Bytes of requests in flight.", one(snapshot.inflightBytes)),
    gauge("worker_max_inflight_bytes", "Bytes of requests that are admitted at once.", one(info.maxInflightBytes)),
    counter("worker_requests_shed_total", "Requests refused at admission.", one(snapshot.shedRequests)),
    gauge("worker_info", "1, with what does not change as labels.", [
      {
        labels: {
          device_ordinal: String(info.deviceOrdinal),
          control_mode: info.controlMode,
          discipline: info.discipline,
          residency_mode: info.residencyMode,
        },
        value: 1,
      },
    ]),
  ];
}

function memoryFamilies(memory: MemorySnapshot | undefined): Family[] {
  if (!memory) return [];
  const { inUse, peakInUse, limit, poolBytes } = memory;
  const name = (part: string) => `worker_device_memory_${part}_bytes`;
  return [
    gauge(name("in_use"), "Device memory that the allocator handed out.", one(inUse)),
    gauge(name("limit"), "Device memory that the allocator may take.", one(limit)),
    gauge(name("free"), "The limit less what is in use.", one(limit === undefined ? undefined : limit - inUse)),
    gauge(name("peak_in_use"), "The most that was in use at once.", one(peakInUse)),
    gauge(name("pool"), "Device memory that the allocator holds.", one(poolBytes)),
  ];
}

function hookFamilies(hooks: HookSnapshot | undefined): Family[] {
  return [
    counter("worker_hook_calls_total", "Hook calls that returned.", one(hooks?.completed)),
    counter("worker_hook_failures_total", "Hook calls and imports that failed.", one(hooks?.failed)),
    counter("worker_hook_time_limits_total", "Hooks ended for their time.", one(hooks?.overTime)),
    counter("worker_hook_memory_limits_total", "Hooks ended for their memory.", one(hooks?.overMemory)),
    counter("worker_hook_threads_lost_total", "Hook threads that ended early.", one(hooks?.threadsLost)),
    gauge("worker_hook_threads", "Hook threads.", one(hooks?.threads)),
    gauge("worker_hooks_running", "Hook calls under way.", one(hooks?.running)),
    gauge("worker_hooks_waiting", "Hook calls that wait for a thread.", one(hooks?.waiting)),
  ];
}

function slabFamilies(slabs: WorkerSnapshot["slabs"]): Family[] {
  return [
    gauge("worker_slabs_leased", "Slabs held by batches and by replies not written yet.", one(slabs?.leased)),
    gauge("worker_slab_leases_waiting", "Batches that wait for slab memory.", one(slabs?.waiting)),
    gauge("worker_slab_held_bytes", "Host memory of all slabs, idle ones too.", one(slabs?.heldBytes)),
  ];
}

function one(value: number | undefined): Sample[] {
  return value === undefined ? [] : [{ labels: {}, value }];
}

function gauge(name: string, help: string, samples: readonly Sample[]): Family {
  return { name, type: "gauge", help, samples };
}

function counter(name: string, help: string, samples: readonly Sample[]): Family {
  return { name, type: "counter", help, samples };
}

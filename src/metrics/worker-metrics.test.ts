// The worker's series against a golden scrape.

import { expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { LatencyHistogram } from "./latency-histogram.ts";
import { processFamilies } from "./process-metrics.ts";
import { renderFamilies } from "./prometheus-text.ts";
import { gpuSelector, type ModelSnapshot, type WorkerInfo, workerMetricsText } from "./worker-metrics.ts";

const GOLDEN = join(import.meta.dir, "../../tests/golden/metrics/worker.txt");

const info: WorkerInfo = {
  worker: "left",
  gpu: "GPU-8f7e",
  deviceOrdinal: 0,
  controlMode: "static",
  discipline: "fifo",
  residencyMode: "device",
  maxInflightBytes: 1 << 30,
};

function model(name: string): ModelSnapshot {
  const latency = new LatencyHistogram();
  for (const ms of [0.5, 1, 1.001, 7, 9000]) latency.observe(ms * 1e6);
  return {
    name,
    counters: {
      dispatches: 3,
      computeNs: 4.5e6,
      rows: 12,
      success: { count: 4 },
      byStatus: new Map([
        ["OK", 4],
        ["INVALID_ARGUMENT", 1],
      ]),
      latency,
      waitNs: (q) => q * 1e6,
    },
    queueDepth: 2,
    resident: true,
    pinned: false,
    weightBytes: 90_868_376,
    maxBatchSize: 16,
  };
}

test("golden worker.txt: two models on a device whose allocator reports", () => {
  const text = workerMetricsText(
    info,
    {
      models: [model("minilm"), model('a "quoted" \\ name')],
      unknownModel: new Map([["NOT_FOUND", 7]]),
      memory: { inUse: 100, peakInUse: 150, limit: 1000, poolBytes: undefined },
      slabs: { leased: 2, waiting: 1, heldBytes: 4096 },
      hooks: {
        completed: 9,
        failed: 4,
        overTime: 2,
        overMemory: 1,
        threadsLost: 3,
        threads: 2,
        running: 1,
        waiting: 5,
      },
      inflightRequests: 5,
      inflightBytes: 602_112,
      shedRequests: 1,
    },
    [],
  );
  if (process.env.UPDATE_GOLDEN) writeFileSync(GOLDEN, text);
  expect(text).toBe(readFileSync(GOLDEN, "utf8"));
});

test("without models or memory statistics their series are absent, not empty", () => {
  const text = workerMetricsText(
    { ...info, gpu: undefined },
    {
      models: [],
      unknownModel: new Map(),
      memory: undefined,
      slabs: undefined,
      hooks: undefined,
      inflightRequests: 0,
      inflightBytes: 0,
      shedRequests: 0,
    },
    [],
  );
  expect(text).not.toContain("worker_dispatch_total");
  expect(text).not.toContain("worker_device_memory");
  expect(text).not.toContain("gpu=");
  expect(text).toContain('worker_models_loaded{worker="left"} 0\n');
});

test("a latency on a bound belongs to that bound's bucket", () => {
  const histogram = new LatencyHistogram();
  histogram.observe(1e6);
  histogram.observe(1e6 + 1);
  histogram.observe(Number.MAX_SAFE_INTEGER);
  expect([...histogram.counts]).toEqual([1, 1, ...new Array(12).fill(0), 1]);
  expect(histogram.count).toBe(3);
});

test.each([
  ["cpu", 0, "0,1", undefined],
  ["cuda", 0, "GPU-1", "GPU-1"],
  ["cuda", 1, "3,5", "5"],
  ["cuda", 1, undefined, "1"],
  ["cuda", 4, "3,5", "4"],
])("the selector of %p %p among %p is %p", (backend, ordinal, visible, expected) => {
  expect(gpuSelector(backend, ordinal, visible)).toBe(expected);
});

test("the process's own series are numbers that make sense", () => {
  const text = renderFamilies(processFamilies(), {});
  const values = new Map(
    text
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"))
      .map((line) => line.split(" ") as [string, string]),
  );
  expect(Number(values.get("process_resident_memory_bytes"))).toBeGreaterThan(1e6);
  expect(Number(values.get("process_cpu_seconds_total"))).toBeGreaterThan(0);
  expect(Number(values.get("process_start_time_seconds"))).toBeGreaterThan(1.7e9);
});

// ModelStatistics: what a model has done since it was loaded, in plain counters that cost nothing to bump.
//
// Read, never reset, by ModelStatistics (Triton's InferStatistics), the metrics of a scrape, and the tests. Durations
// are sums of nanoseconds. Requests are counted when they are answered, executions when they end.

import type { StatusCode } from "../base/errors.ts";
import { LatencyHistogram } from "../metrics/latency-histogram.ts";

/** A number of things and the nanoseconds they took together. */
export interface Duration {
  count: number;
  ns: number;
}

/** One finished request, as request.ts measured it. */
export interface ServedRequest {
  readonly rows: number;
  readonly totalNs: number;
  readonly queueNs: number;
  readonly inputNs: number;
  readonly executeNs: number;
  readonly outputNs: number;
}

// As the reference system: enough for a p99, small enough to keep for every model.
const WAIT_SAMPLES = 1024;

export class ModelStatistics {
  /** Requests that are in, or wait for, their preprocess hook now. */
  preprocessing = 0;
  /** Executions, by any outcome. */
  dispatches = 0;
  failedDispatches = 0;
  /** Device time of executions, transfers included. */
  computeNs = 0;
  /** Rows that were executed for somebody: padding left out. */
  rows = 0;
  /** Executions, and their device time, by compiled batch size. */
  readonly byBatchSize = new Map<number, Duration>();
  readonly byStatus = new Map<StatusCode, number>();
  readonly success: Duration = { count: 0, ns: 0 };
  readonly failure: Duration = { count: 0, ns: 0 };
  readonly queue: Duration = { count: 0, ns: 0 };
  readonly input: Duration = { count: 0, ns: 0 };
  readonly execute: Duration = { count: 0, ns: 0 };
  readonly output: Duration = { count: 0, ns: 0 };
  /** Rows of successful requests. */
  inferences = 0;
  /** Unix milliseconds of the last successful request; 0 before. */
  lastInferenceMs = 0;
  readonly latency = new LatencyHistogram();
  private readonly waits = new Float64Array(WAIT_SAMPLES);
  private waitCount = 0;

  executed(batchSize: number, rows: number, computeNs: number): void {
    this.dispatches++;
    this.rows += rows;
    this.computeNs += computeNs;
    const duration = this.byBatchSize.get(batchSize) ?? { count: 0, ns: 0 };
    add(duration, computeNs);
    this.byBatchSize.set(batchSize, duration);
  }

  failedBatch(): void {
    this.dispatches++;
    this.failedDispatches++;
  }

  served(request: ServedRequest, wallMs: number): void {
    this.answered("OK", request.totalNs);
    add(this.success, request.totalNs);
    add(this.queue, request.queueNs);
    add(this.input, request.inputNs);
    add(this.execute, request.executeNs);
    add(this.output, request.outputNs);
    this.inferences += request.rows;
    this.lastInferenceMs = wallMs;
    this.waits[this.waitCount++ % WAIT_SAMPLES] = request.queueNs;
  }

  failed(code: StatusCode, totalNs: number): void {
    this.answered(code, totalNs);
    add(this.failure, totalNs);
  }

  /** The q-quantile of recent queue waits in nanoseconds; 0 before the first. */
  waitNs(q: number): number {
    const samples = this.waits.slice(0, Math.min(this.waitCount, WAIT_SAMPLES)).sort();
    return samples[Math.max(Math.ceil(q * samples.length), 1) - 1] ?? 0;
  }

  private answered(code: StatusCode, totalNs: number): void {
    this.byStatus.set(code, (this.byStatus.get(code) ?? 0) + 1);
    this.latency.observe(totalNs);
  }
}

function add(duration: Duration, ns: number): void {
  duration.count++;
  duration.ns += ns;
}

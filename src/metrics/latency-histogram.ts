// A latency histogram in plain counters: what a request costs to observe is a comparison or fourteen and three adds.
//
// Buckets are 0.001 * 2^k seconds, k = 0..13, and +Inf, as the reference system's, so that its dashboards fit. Counters
// only grow. Bumped by model/, read by a scrape.

/** Upper bounds of the buckets in seconds; the last bucket, above them all, has none. */
export const LATENCY_BOUNDS_S: readonly number[] = Array.from({ length: 14 }, (_, k) => 0.001 * 2 ** k);

const BOUNDS_NS = LATENCY_BOUNDS_S.map((seconds) => seconds * 1e9);

export class LatencyHistogram {
  /** Observations by bucket, each counted once; the last is above every bound. */
  readonly counts = new Float64Array(BOUNDS_NS.length + 1);
  sumNs = 0;

  observe(latencyNs: number): void {
    let bucket = 0;
    while (bucket < BOUNDS_NS.length && latencyNs > BOUNDS_NS[bucket]!) bucket++;
    this.counts[bucket]!++;
    this.sumNs += latencyNs;
  }

  get count(): number {
    return this.counts.reduce((sum, count) => sum + count, 0);
  }
}

// CostEstimate: what one execution of a unit takes on the device, learned from what it took.
//
// An exponential moving average; the first measurement is taken as it is. Seeded from the executable cache or by the
// warm-up, fed by every execution; read by dispatch to time early commits.

export class CostEstimate {
  private learnedNs: number | undefined;

  /** `newestWeight` in (0, 1] is what the newest measurement counts. */
  constructor(
    storedNs: number | undefined,
    private readonly newestWeight: number,
  ) {
    this.learnedNs = storedNs;
  }

  /** Nanoseconds; undefined until something was measured. */
  get ns(): number | undefined {
    return this.learnedNs;
  }

  learn(measuredNs: number): void {
    const old = this.learnedNs;
    this.learnedNs = old === undefined ? measuredNs : this.newestWeight * measuredNs + (1 - this.newestWeight) * old;
  }
}

// CostEstimate: what one execution of a unit takes on the device, learned from what it took.
//
// An exponential moving average (weight 0.2 to the newest, the reference system's choice); the first measurement is
// taken as it is. Seeded from the executable cache or by the warm-up; read by dispatch to time early commits.

const NEWEST_WEIGHT = 0.2;

export class CostEstimate {
  private learnedNs: number | undefined;

  constructor(storedNs: number | undefined) {
    this.learnedNs = storedNs;
  }

  /** Nanoseconds; undefined until something was measured. */
  get ns(): number | undefined {
    return this.learnedNs;
  }

  learn(measuredNs: number): void {
    const old = this.learnedNs;
    this.learnedNs = old === undefined ? measuredNs : NEWEST_WEIGHT * measuredNs + (1 - NEWEST_WEIGHT) * old;
  }
}

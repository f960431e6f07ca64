// A bound on frames that cost work and carry nothing: resets, pings, settings, empty data (CVE-2023-44487 and its kin).
//
// Invariant: a token bucket of IDLE_FRAMES_BURST_MAX, refilled by IDLE_FRAMES_PER_SECOND_MAX; an empty one ends the
// connection with ENHANCE_YOUR_CALM. One a connection; called by `http2-connection.ts`.

import { type Clock, NS_PER_S } from "../base/clock.ts";
import { IDLE_FRAMES_BURST_MAX, IDLE_FRAMES_PER_SECOND_MAX } from "../base/limits.ts";
import { ConnectionError, H2_ERROR } from "./frames.ts";

export class FloodGauge {
  private tokens = IDLE_FRAMES_BURST_MAX;
  private atNs: number;

  constructor(private readonly clock: Clock) {
    this.atNs = clock.nowNs();
  }

  /** Counts one such frame, or one that costs as much as `frames` of them. Throws ConnectionError at too many. */
  count(what: string, frames = 1): void {
    this.tokens -= frames;
    if (this.tokens >= 0) return;
    // The clock is read only when a burst is used up.
    const nowNs = this.clock.nowNs();
    const refill = Math.floor(((nowNs - this.atNs) / NS_PER_S) * IDLE_FRAMES_PER_SECOND_MAX);
    this.atNs = nowNs;
    this.tokens = Math.min(refill, IDLE_FRAMES_BURST_MAX) - frames;
    if (this.tokens < 0) throw new ConnectionError(H2_ERROR.ENHANCE_YOUR_CALM, `too many frames: ${what}`);
  }
}

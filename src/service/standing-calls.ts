// The calls that stay open for as long as their clients like: a bounded number, all ended when the server drains.
//
// Without this a drain would wait for them to its last second. Invariant: beyond the calls that are open, at most as
// many ended ones are remembered, or STANDING_CALLS_SWEPT_MIN. Used by serving-status.ts and reflection.ts, one each.

import { ServerError } from "../base/errors.ts";
import { STANDING_CALLS_SWEPT_MIN } from "../base/limits.ts";
import type { Rpc } from "../net/rpc.ts";

const DRAINING = "the server is draining";

/** Whatever serves one such call. */
export interface Standing {
  readonly call: Rpc;
}

export class StandingCalls<Each extends Standing> {
  private readonly members = new Set<Each>();
  private sweepAt: number;
  private isDraining = false;

  constructor(
    /** In words, plural. */
    private readonly what: string,
    private readonly openMax: number,
  ) {
    this.sweepAt = Math.min(STANDING_CALLS_SWEPT_MIN, openMax);
  }

  get draining(): boolean {
    return this.isDraining;
  }

  /** Those whose calls are open. */
  open(): Each[] {
    this.sweep();
    return [...this.members];
  }

  /** Takes one in until its call ends. Errors: UNAVAILABLE when draining, RESOURCE_EXHAUSTED when there are too many. */
  admit(each: Each): void {
    if (this.isDraining) throw new ServerError("UNAVAILABLE", DRAINING);
    if (this.members.size >= this.sweepAt) this.sweep();
    if (this.members.size >= this.openMax) {
      throw new ServerError(
        "RESOURCE_EXHAUSTED",
        `${this.what}: ${this.members.size} are open, at most ${this.openMax}`,
      );
    }
    this.members.add(each);
    each.call.onCancel(() => this.members.delete(each));
  }

  /** Refuses those to come. */
  refuse(): void {
    this.isDraining = true;
  }

  /** Refuses those to come and ends every open call: its client looks for another server. */
  drain(): void {
    this.refuse();
    for (const { call } of this.members) call.end("UNAVAILABLE", DRAINING);
    this.members.clear();
  }

  /** A call that ended with a status, by its method or the transport, says so to nobody: it is found here. */
  private sweep(): void {
    for (const each of this.members) if (each.call.ended) this.members.delete(each);
    const wantedAt = Math.max(2 * this.members.size, STANDING_CALLS_SWEPT_MIN);
    this.sweepAt = Math.min(wantedAt, this.openMax);
  }
}

// The bytes of all replies that a server holds for peers who have not taken them, and who goes when they are too many.
//
// Replies may lie in memory that everybody needs (slabs), so whoever takes them slowest pays: from half of the budget on
// its connection is ended once it made no progress for SEND_PRESSURE_NS. At the budget new replies are refused; small
// ones have some room beyond. Invariant: `queuedBytes` is the sum over all connections. One a server; used by `rpc.ts`,
// `sender.ts` and `stall-guard.ts`.

import type { Clock } from "../base/clock.ts";
import { SEND_PRESSURE_NS, SMALL_MESSAGE_BYTES, SMALL_REPLIES_BYTES_MAX } from "../base/limits.ts";

/** A connection with queued replies. */
export interface Reader {
  /** How long ago it last made progress. */
  stalledNs(nowNs: number): number;
  /** Ends the connection; its replies are released. */
  giveUp(): void;
}

export class SendBudget {
  queuedBytes = 0;
  /** Connections with queued replies. */
  readonly readers = new Set<Reader>();

  constructor(
    readonly bytesMax: number,
    private readonly clock: Clock,
  ) {}

  /** Whether a reply of `bytes` may be queued. May end connections to make room. One alone is always let in. */
  admits(bytes: number): boolean {
    const spareBytes = bytes <= SMALL_MESSAGE_BYTES ? SMALL_REPLIES_BYTES_MAX : 0;
    const roomBytes = Math.max(this.bytesMax + spareBytes - bytes, 0);
    if (this.queuedBytes > roomBytes) this.relieve(roomBytes);
    return this.queuedBytes <= roomBytes;
  }

  /** Ends the slowest connections until `bytesMax` are queued, half of the budget if not given, or none is slow. */
  relieve(bytesMax = this.bytesMax / 2): void {
    while (this.queuedBytes > bytesMax) {
      const slowest = this.slowest();
      if (slowest === undefined) return;
      this.readers.delete(slowest);
      slowest.giveUp();
    }
  }

  private slowest(): Reader | undefined {
    const nowNs = this.clock.nowNs();
    let slowest: Reader | undefined;
    let stalledNs = SEND_PRESSURE_NS;
    for (const reader of this.readers) {
      const each = reader.stalledNs(nowNs);
      if (each < stalledNs) continue;
      stalledNs = each;
      slowest = reader;
    }
    return slowest;
  }
}

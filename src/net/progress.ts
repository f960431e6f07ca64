// Whether a peer moves: a count of bytes that must grow by a step within a time, or it has stalled.
//
// A step instead of any byte, since a byte now and then would hold memory for ever. Invariant: time counts from the last
// step made. Used by `stall-guard.ts` for replies, by `http2-connection.ts` for requests.

export class Progress {
  /** @param bytes the count at `sinceNs` */
  constructor(
    private bytes: number,
    private sinceNs: number,
  ) {}

  /** How long ago the last step was made, by the count as it stands now. */
  stalledNs(bytes: number, stepBytes: number, nowNs: number): number {
    if (bytes - this.bytes >= stepBytes) {
      this.bytes = bytes;
      this.sinceNs = nowNs;
    }
    return nowNs - this.sinceNs;
  }
}

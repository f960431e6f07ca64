// Frees the memory behind replies whose reader has stalled: a slab must not wait for a slow client.
//
// While replies are queued on a connection, its written bytes are looked at every STALL_NS; if none moved, queued replies
// are copied, up to STALLED_REPLY_BYTES_MAX a connection, and their owners' memory is released. A reader that keeps up
// never pays the copy. One a connection; called by `http2-connection.ts`.

import type { Clock, Timer } from "../base/clock.ts";
import { STALL_NS, STALLED_REPLY_BYTES_MAX } from "../base/limits.ts";
import type { Http2Stream } from "./http2-stream.ts";
import type { Sender } from "./sender.ts";

export class StallGuard {
  private timer: Timer | undefined;
  private writtenBytes = 0;

  constructor(
    private readonly sender: Sender,
    private readonly streams: ReadonlyMap<number, Http2Stream>,
    private readonly clock: Clock,
  ) {}

  /** To be called when output may have been left over. */
  watch(): void {
    if (this.timer !== undefined || this.sender.borrowedReplies === 0) return;
    this.writtenBytes = this.sender.writtenBytes;
    this.timer = this.clock.after(STALL_NS, () => {
      this.timer = undefined;
      if (this.sender.writtenBytes === this.writtenBytes) this.copyReplies();
      this.watch();
    });
  }

  stop(): void {
    this.timer?.cancel();
    this.timer = undefined;
  }

  private copyReplies(): void {
    let ownedBytes = 0;
    for (const stream of this.streams.values()) ownedBytes += stream.ownedBytes;
    for (const stream of this.streams.values()) ownedBytes += stream.copyReplies(STALLED_REPLY_BYTES_MAX - ownedBytes);
  }
}

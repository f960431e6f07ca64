// Frees the memory behind replies whose reader has stalled: a slab must not wait for a slow client.
//
// While replies are queued on a connection, its written bytes are looked at every STALL_NS; if none moved, queued replies
// are copied, up to STALLED_REPLY_BYTES_MAX a connection, and their owners' memory is released. What is beyond that holds
// its memory until STALLS_MAX looks have found no byte taken: then the peer is given up. A reader that keeps up never
// pays the copy. One a connection; called by `http2-connection.ts`.

import type { Clock, Timer } from "../base/clock.ts";
import { STALL_NS, STALLED_REPLY_BYTES_MAX, STALLS_MAX } from "../base/limits.ts";
import type { Http2Stream } from "./http2-stream.ts";
import type { Sender } from "./sender.ts";

export class StallGuard {
  private timer: Timer | undefined;
  private writtenBytes = 0;
  private stalls = 0;

  /** @param giveUp ends the connection; its replies are then released */
  constructor(
    private readonly sender: Sender,
    private readonly streams: ReadonlyMap<number, Http2Stream>,
    private readonly clock: Clock,
    private readonly giveUp: () => void,
  ) {}

  /** To be called when output may have been left over. */
  watch(): void {
    if (this.timer !== undefined || this.sender.borrowedReplies === 0) return;
    this.writtenBytes = this.sender.writtenBytes;
    this.timer = this.clock.after(STALL_NS, () => {
      this.timer = undefined;
      this.look();
    });
  }

  stop(): void {
    this.timer?.cancel();
    this.timer = undefined;
  }

  private look(): void {
    const moved = this.sender.writtenBytes !== this.writtenBytes;
    if (!moved) this.copyReplies();
    this.stalls = moved || this.sender.borrowedReplies === 0 ? 0 : this.stalls + 1;
    if (this.stalls >= STALLS_MAX) this.giveUp();
    else this.watch();
  }

  private copyReplies(): void {
    let ownedBytes = 0;
    for (const stream of this.streams.values()) ownedBytes += stream.ownedBytes;
    for (const stream of this.streams.values()) ownedBytes += stream.copyReplies(STALLED_REPLY_BYTES_MAX - ownedBytes);
  }
}

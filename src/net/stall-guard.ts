// Frees the memory behind replies whose reader has stalled: a slab must not wait for a slow client.
//
// While output waits on a connection, what was taken of it is looked at every STALL_NS. At less than STALL_BYTES queued
// replies are copied, up to STALLED_REPLY_BYTES_MAX a connection, and their owners' memory is released; a reader that
// keeps up never pays the copy. Without progress for SEND_PROGRESS_NS the connection is ended, and earlier if all
// replies together are too many (`send-budget.ts`). One a connection; called by `http2-connection.ts`.

import type { Clock, Timer } from "../base/clock.ts";
import {
  SEND_PROGRESS_BYTES,
  SEND_PROGRESS_NS,
  SEND_PROGRESS_PARTS,
  STALL_BYTES,
  STALL_NS,
  STALLED_REPLY_BYTES_MAX,
} from "../base/limits.ts";
import type { Http2Stream } from "./http2-stream.ts";
import { Progress } from "./progress.ts";
import type { Reader, SendBudget } from "./send-budget.ts";
import type { Sender } from "./sender.ts";

export class StallGuard implements Reader {
  private timer: Timer | undefined;
  private takenBytes = 0;
  private progress: Progress | undefined;

  /** @param giveUp ends the connection; its replies are then released */
  constructor(
    private readonly sender: Sender,
    private readonly streams: ReadonlyMap<number, Http2Stream>,
    private readonly budget: SendBudget,
    private readonly clock: Clock,
    readonly giveUp: () => void,
  ) {}

  /** To be called when output may have been left over. */
  watch(): void {
    if (this.timer !== undefined || !this.sender.waiting) return;
    this.progress ??= new Progress(this.sender.takenBytes, this.clock.nowNs());
    this.budget.readers.add(this);
    this.takenBytes = this.sender.takenBytes;
    this.timer = this.clock.after(STALL_NS, () => {
      this.timer = undefined;
      this.look();
    });
  }

  stop(): void {
    this.timer?.cancel();
    this.timer = this.progress = undefined;
    this.budget.readers.delete(this);
  }

  stalledNs(nowNs: number): number {
    const { takenBytes, queuedBytes } = this.sender;
    const stepBytes = Math.max(SEND_PROGRESS_BYTES, queuedBytes / SEND_PROGRESS_PARTS);
    return this.progress?.stalledNs(takenBytes, stepBytes, nowNs) ?? 0;
  }

  private look(): void {
    if (!this.sender.waiting) {
      this.stop();
      return;
    }
    if (this.sender.takenBytes - this.takenBytes < STALL_BYTES) this.copyReplies();
    if (this.stalledNs(this.clock.nowNs()) >= SEND_PROGRESS_NS) {
      this.giveUp();
      return;
    }
    this.budget.relieve();
    this.watch();
  }

  private copyReplies(): void {
    if (this.sender.borrowedReplies === 0) return;
    let ownedBytes = 0;
    for (const stream of this.streams.values()) ownedBytes += stream.ownedBytes;
    for (const stream of this.streams.values()) ownedBytes += stream.copyReplies(STALLED_REPLY_BYTES_MAX - ownedBytes);
  }
}

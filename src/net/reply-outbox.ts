// The replies of one call on their way to be compressed, in order.
//
// Small ones are compressed at once, larger ones on the thread pool, in the memory they came in. Invariants: `released`
// of every reply runs exactly once, and not while zlib reads it; what waits counts as queued in the SendBudget. Made for
// calls whose replies are compressed; used by `rpc.ts`.

import { COMPRESSED_REPLY_BYTES_MIN } from "../base/limits.ts";
import { gzip, gzipInline, isInline } from "./compression.ts";
import type { SendBudget } from "./send-budget.ts";
import type { Turns } from "./turns.ts";

/** The call. */
export interface OutboxOwner {
  readonly ended: boolean;
  /** Sends one message as it is. */
  transmit(chunks: readonly Uint8Array[], bytes: number, compressed: boolean, released?: () => void): void;
  /** Nothing waits any more. */
  outboxEmptied(): void;
  fail(error: unknown): void;
}

interface Reply {
  readonly chunks: readonly Uint8Array[];
  readonly bytes: number;
  readonly released: (() => void) | undefined;
}

export class ReplyOutbox {
  /** Replies wait to be compressed, or behind such. */
  busy = false;
  private waiting: Reply[] = [];

  constructor(
    private readonly owner: OutboxOwner,
    private readonly budget: SendBudget,
    private readonly turns: Turns,
  ) {}

  /** Takes the next reply of `bytes` in all; it belongs to the outbox until `released`. */
  send(chunks: readonly Uint8Array[], bytes: number, released: (() => void) | undefined): void {
    if (!this.busy && bytes < COMPRESSED_REPLY_BYTES_MIN) {
      this.owner.transmit(chunks, bytes, false, released);
      return;
    }
    if (!this.busy && isInline(bytes)) {
      const compressed = gzipInline(chunks);
      released?.();
      this.owner.transmit([compressed], compressed.length, true);
      return;
    }
    this.waiting.push({ chunks, bytes, released });
    this.budget.queuedBytes += bytes;
    if (this.busy) return;
    this.busy = true;
    void this.work();
  }

  private async work(): Promise<void> {
    while (this.waiting.length > 0) {
      const batch = this.waiting;
      this.waiting = [];
      for (const reply of batch) await this.compress(reply);
    }
    this.busy = false;
    if (!this.owner.ended) this.owner.outboxEmptied();
  }

  private async compress({ chunks, bytes, released }: Reply): Promise<void> {
    let compressed: Uint8Array[] | undefined;
    await this.turns.take();
    try {
      compressed = await gzip(chunks, () => !this.owner.ended);
    } catch (error) {
      this.owner.fail(error);
    } finally {
      this.turns.giveBack();
      this.budget.queuedBytes -= bytes;
      released?.();
    }
    if (compressed === undefined || this.owner.ended) return;
    this.owner.transmit(
      compressed,
      compressed.reduce((sum, piece) => sum + piece.length, 0),
      true,
    );
  }
}

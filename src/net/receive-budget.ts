// The bytes of all requests that a server is still receiving, and who goes when they are too many.
//
// Charged are bytes that have come and are held, not those promised: a promise is cheap. Above the budget the newest
// request goes, so that the oldest always ends and its room comes back; one that is slow counts as new again. Small
// requests go last. Invariant: what is charged exceeds `bytesMax` during `charge` only. One a server; used by `rpc.ts`.

import type { Clock, Timer } from "../base/clock.ts";
import { PEER_LOOK_NS, RECEIVE_PROGRESS_BYTES, SMALL_MESSAGE_BYTES } from "../base/limits.ts";

/** Whose request it is. */
export interface Receiving {
  /** Ends the call, whose bytes are then released; `heldBytes` in all were held, of `bytesMax` that may be. */
  overBudget(heldBytes: number, bytesMax: number): void;
}

/** A request under way; one link of a ring. */
export class Reception {
  bytes = 0;
  bytesAtLook = 0;
  queue: Reception | undefined;
  previous: Reception = this;
  next: Reception = this;

  constructor(readonly owner: Receiving | undefined) {}

  unlink(): void {
    this.previous.next = this.next;
    this.next.previous = this.previous;
    this.previous = this.next = this;
  }

  /** Becomes the last of the ring that starts and ends at `queue`. */
  append(queue: Reception): void {
    this.unlink();
    this.queue = queue;
    this.previous = queue.previous;
    this.next = queue;
    this.previous.next = queue.previous = this;
  }
}

export class ReceiveBudget {
  heldBytes = 0;
  // Rings, oldest first, by what has come so far.
  private readonly small = new Reception(undefined);
  private readonly large = new Reception(undefined);
  private timer: Timer | undefined;

  constructor(
    private readonly bytesMax: number,
    private readonly clock: Clock,
  ) {}

  begin(owner: Receiving): Reception {
    const reception = new Reception(owner);
    reception.append(this.small);
    return reception;
  }

  /** Counts `bytes` more of a request; it, or others, may be ended by it. */
  charge(reception: Reception, bytes: number): void {
    this.heldBytes += bytes;
    reception.bytes += bytes;
    if (reception.bytes > SMALL_MESSAGE_BYTES && reception.queue === this.small) {
      reception.append(this.large);
      this.watch();
    }
    while (this.heldBytes > this.bytesMax) {
      const newest = this.large.previous === this.large ? this.small.previous : this.large.previous;
      const { heldBytes } = this;
      this.release(newest);
      newest.owner!.overBudget(heldBytes, this.bytesMax);
    }
  }

  /** The request is complete or over; once more does nothing. */
  release(reception: Reception): void {
    this.heldBytes -= reception.bytes;
    reception.bytes = 0;
    reception.unlink();
  }

  stop(): void {
    this.timer?.cancel();
    this.timer = undefined;
  }

  private watch(): void {
    if (this.timer !== undefined || this.large.next === this.large) return;
    this.timer = this.clock.after(PEER_LOOK_NS, () => {
      this.timer = undefined;
      this.demoteSlow();
      this.watch();
    });
  }

  /** Large requests that came slower than RECEIVE_PROGRESS_BYTES a look go behind those that came faster. */
  private demoteSlow(): void {
    const last = this.large.previous;
    for (let each = this.large.next, done = each === this.large; !done; ) {
      const { next } = each;
      done = each === last;
      const slow = each.bytes - each.bytesAtLook < RECEIVE_PROGRESS_BYTES;
      each.bytesAtLook = each.bytes;
      if (slow) each.append(this.large);
      each = next;
    }
  }
}

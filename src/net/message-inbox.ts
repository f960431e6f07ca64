// The messages of one call between its body and its method: compressed ones are inflated, and the order is kept.
//
// Small messages pass at once; behind one that is inflated on the thread pool the others wait. Invariant: all that waits
// or was inflated is charged to the call. Made for calls with a grpc-encoding; used by `rpc.ts`.

import { QUEUED_MESSAGE_BYTES } from "../base/limits.ts";
import type { ByteSource } from "../tensor/byte-source.ts";
import { type Encoding, inflate, inflateInline } from "./compression.ts";
import type { Turns } from "./turns.ts";

/** The call. */
export interface InboxOwner {
  readonly ended: boolean;
  /** Holds so many bytes more; may end the call. */
  charge(bytes: number): void;
  /** The next message. May throw. */
  deliver(message: ByteSource): void;
  /** Nothing waits any more. May throw. */
  inboxEmptied(): void;
  fail(error: unknown): void;
}

interface Waiting {
  readonly message: ByteSource;
  readonly compressed: boolean;
}

export class MessageInbox {
  /** Messages wait to be inflated, or behind such. */
  busy = false;
  private waiting: Waiting[] = [];

  constructor(
    private readonly owner: InboxOwner,
    private readonly encoding: Encoding,
    private readonly messageBytesMax: number,
    private readonly turns: Turns,
  ) {}

  /** Takes the next message. Errors: those of `inflateInline` and `deliver`. */
  take(message: ByteSource, compressed: boolean): void {
    if (!this.busy) {
      const plain = compressed ? inflateInline(message, this.encoding, this.messageBytesMax) : message;
      if (plain !== undefined) {
        if (compressed) this.owner.charge(plain.byteLength);
        if (!this.owner.ended) this.owner.deliver(plain);
        return;
      }
    }
    this.waiting.push({ message, compressed });
    this.owner.charge(QUEUED_MESSAGE_BYTES);
    if (this.busy) return;
    this.busy = true;
    this.work().catch((error) => this.owner.fail(error));
  }

  private async work(): Promise<void> {
    while (this.waiting.length > 0) {
      const batch = this.waiting;
      this.waiting = [];
      for (const { message, compressed } of batch) {
        const plain = compressed ? await this.inflated(message) : message;
        if (plain === undefined || this.owner.ended) return;
        this.owner.deliver(plain);
      }
    }
    this.busy = false;
    this.owner.inboxEmptied();
  }

  private async inflated(message: ByteSource): Promise<ByteSource | undefined> {
    const { owner } = this;
    await this.turns.take();
    try {
      if (owner.ended) return undefined;
      return await inflate(message, this.encoding, this.messageBytesMax, (bytes) => {
        if (!owner.ended) owner.charge(bytes);
        return !owner.ended;
      });
    } finally {
      this.turns.giveBack();
    }
  }
}

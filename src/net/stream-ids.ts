// The stream ids that a client has used on one connection (RFC 9113, section 5.1.1).
//
// Invariant: ids only grow; one that was jumped over was never opened, so no frame may name it. What is remembered of
// the past is bounded. One a connection; used by `http2-connection.ts`.

import { ConnectionError, H2_ERROR } from "./frames.ts";

/** Stream resets of ours whose streams the peer may still be writing to; older ones are answered as closed. */
const RESETS_REMEMBERED = 256;

export class StreamIds {
  /** The highest id used. */
  last = 0;
  // Ids that the peer jumped over last, [skippedFrom, skippedTo).
  private skippedFrom = 0;
  private skippedTo = 0;
  private readonly resets = new Set<number>();

  /** The peer opens a stream above all before. */
  use(streamId: number): void {
    if (streamId > this.last + 2) [this.skippedFrom, this.skippedTo] = [this.last + 1, streamId];
    this.last = streamId;
  }

  /** Throws ConnectionError for a frame on a stream that was never opened. */
  expectUsed(streamId: number, what: string): void {
    const skipped = streamId >= this.skippedFrom && streamId < this.skippedTo;
    if (streamId > this.last || streamId % 2 === 0 || skipped) {
      throw new ConnectionError(H2_ERROR.PROTOCOL_ERROR, `${what} on idle stream ${streamId}`);
    }
  }

  /** Whether we reset the stream lately, so that what still comes on it is an echo. */
  wasReset(streamId: number): boolean {
    return this.resets.has(streamId);
  }

  rememberReset(streamId: number): void {
    this.resets.add(streamId);
    if (this.resets.size <= RESETS_REMEMBERED) return;
    for (const oldest of this.resets) {
      this.resets.delete(oldest);
      return;
    }
  }
}

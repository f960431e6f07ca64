// Admission: how many bytes may be inside the server at once: requests as they came and as hooks made them, and replies
// until their clients have taken them.
//
// A reply is counted, not refused: its work is done, and requests that come after it pay. Only inference is counted, so
// health and control calls are never refused by it. A request larger than the whole bound is let in when nothing else is
// inside: the transport's message limit already bounds it alone. Messages that are still being received are the
// transport's to bound. Called by request.ts.

import { ServerError } from "../base/errors.ts";

export class Admission {
  private bytes = 0;
  private count = 0;
  private replyBytes = 0;
  private refusals = 0;

  constructor(private readonly maxBytes: number) {}

  get inflight(): number {
    return this.count;
  }

  get inflightBytes(): number {
    return this.bytes;
  }

  /** Requests refused so far. */
  get shed(): number {
    return this.refusals;
  }

  /** A request comes in. Errors: RESOURCE_EXHAUSTED. Each success is paired with one leave(). */
  enter(byteLength: number): void {
    this.reserve(byteLength, this.count === 0 && this.replyBytes === 0);
    this.count++;
  }

  /** A request that is inside takes more. Errors: RESOURCE_EXHAUSTED; it must leave with what it had. */
  grow(byteLength: number): void {
    this.reserve(byteLength, this.count === 1 && this.replyBytes === 0);
  }

  /** A request goes, with all that it entered with and grew by. */
  leave(byteLength: number): void {
    this.bytes -= byteLength;
    this.count--;
  }

  /** A reply waits to be written. Each is paired with one replied(). */
  replying(byteLength: number): void {
    this.bytes += byteLength;
    this.replyBytes += byteLength;
  }

  replied(byteLength: number): void {
    this.bytes -= byteLength;
    this.replyBytes -= byteLength;
  }

  private reserve(byteLength: number, alone: boolean): void {
    if (!alone && this.bytes + byteLength > this.maxBytes) {
      this.refusals++;
      throw new ServerError(
        "RESOURCE_EXHAUSTED",
        `${byteLength} bytes do not fit: ${this.bytes} are in flight, endpoints.max_inflight_bytes is ${this.maxBytes}`,
      );
    }
    this.bytes += byteLength;
  }
}

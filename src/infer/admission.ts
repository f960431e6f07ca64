// Admission: how many bytes of requests may be inside the server at once. Bounds memory, whatever the requests' sizes.
//
// Only inference is counted, so health and control calls are never refused by it. A request larger than the whole bound
// is let in when nothing else is inside: the transport's message limit already bounds it alone. Called by request.ts.

import { ServerError } from "../base/errors.ts";

export class Admission {
  private bytes = 0;
  private count = 0;
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

  /** Errors: RESOURCE_EXHAUSTED. Each success is paired with one leave() of the same size. */
  enter(byteLength: number): void {
    if (this.count > 0 && this.bytes + byteLength > this.maxBytes) {
      this.refusals++;
      throw new ServerError(
        "RESOURCE_EXHAUSTED",
        `${byteLength} bytes do not fit: ${this.bytes} are in flight, endpoints.max_inflight_bytes is ${this.maxBytes}`,
      );
    }
    this.bytes += byteLength;
    this.count++;
  }

  leave(byteLength: number): void {
    this.bytes -= byteLength;
    this.count--;
  }
}

// A gRPC body to its messages: five bytes of prefix (compressed flag, length), then the message, again and again.
//
// A message is a list of views of the received chunks, never gathered. Invariant: a message above `messageBytesMax` is
// refused by its prefix, before its bytes come. One a call; used by `rpc.ts`.

import { ServerError } from "../base/errors.ts";
import { type ByteSource, Chunks } from "../tensor/byte-source.ts";
import { readUint32 } from "./frames.ts";

export const PREFIX_BYTES = 5;

export class MessageReader {
  // Made only for a prefix that was cut.
  private prefix: Uint8Array | undefined;
  private prefixRead = 0;
  private inMessage = false;
  private remaining = 0;
  private chunks: Uint8Array[] = [];

  constructor(
    private readonly messageBytesMax: number,
    private readonly message: (message: ByteSource) => void,
  ) {}

  /** The body may end here: no message is under way. */
  get atBoundary(): boolean {
    return !this.inMessage && this.prefixRead === 0;
  }

  /** Takes the next bytes of the body, views of which are kept. Throws ServerError. */
  read(bytes: Uint8Array, start: number, end: number): void {
    let at = start;
    while (at < end) {
      if (!this.inMessage) {
        if (this.prefixRead === 0 && end - at >= PREFIX_BYTES) {
          this.begin(bytes, at);
          at += PREFIX_BYTES;
        } else {
          at = this.gatherPrefix(bytes, at, end);
        }
      }
      if (!this.inMessage) continue;
      const take = Math.min(this.remaining, end - at);
      if (take > 0) this.chunks.push(bytes.subarray(at, at + take));
      at += take;
      this.remaining -= take;
      if (this.remaining > 0) continue;
      const chunks = this.chunks;
      this.chunks = [];
      this.inMessage = false;
      this.message(chunks.length === 1 ? Chunks.of(chunks[0]!) : Chunks.from(chunks));
    }
  }

  private gatherPrefix(bytes: Uint8Array, at: number, end: number): number {
    this.prefix ??= new Uint8Array(PREFIX_BYTES);
    while (at < end && this.prefixRead < PREFIX_BYTES) this.prefix[this.prefixRead++] = bytes[at++]!;
    if (this.prefixRead === PREFIX_BYTES) {
      this.prefixRead = 0;
      this.begin(this.prefix, 0);
    }
    return at;
  }

  private begin(bytes: Uint8Array, at: number): void {
    const flag = bytes[at]!;
    // Only identity is negotiated, so a message that says it is compressed cannot be read (PROTOCOL-HTTP2.md).
    if (flag !== 0)
      throw new ServerError("INTERNAL", `message with compressed flag ${flag}, but grpc-encoding is identity`);
    const length = readUint32(bytes, at + 1);
    if (length > this.messageBytesMax) {
      throw new ServerError(
        "RESOURCE_EXHAUSTED",
        `request message of ${length} bytes exceeds the limit of ${this.messageBytesMax} bytes`,
      );
    }
    this.inMessage = true;
    this.remaining = length;
  }
}

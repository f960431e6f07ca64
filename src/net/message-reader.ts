// A gRPC body to its messages: five bytes of prefix (compressed flag, length), then the message, again and again.
//
// A message is a list of views of the received chunks, not gathered, but for scraps: a peer that sends a message byte by
// byte must not make us keep an object for each. Invariant: a message above `messageBytesMax` is refused by its prefix,
// before its bytes come. One a call; used by `rpc.ts`.

import { ServerError } from "../base/errors.ts";
import { type ByteSource, Chunks } from "../tensor/byte-source.ts";
import { readUint32 } from "./frames.ts";

export const PREFIX_BYTES = 5;

/** A smaller piece of a message that came in several is copied: a view of it would cost about as much as it holds. */
const SCRAP_BYTES = 1024;
/** What scraps are gathered in. */
const GATHER_BYTES = 16 * 2 ** 10;

export interface MessageListener {
  /** The next message; `compressed`: as the request's grpc-encoding says, and still to be inflated. */
  message(message: ByteSource, compressed: boolean): void;
}

export class MessageReader {
  // Made only for a prefix that was cut.
  private prefix: Uint8Array | undefined;
  private prefixRead = 0;
  private inMessage = false;
  private compressed = false;
  private remaining = 0;
  // The message so far: chunks, then what was gathered since the last of them. Made only for one that came in pieces.
  private chunks: Uint8Array[] | undefined;
  private gathered: Uint8Array | undefined;
  private gatheredBytes = 0;

  constructor(
    private readonly messageBytesMax: number,
    private readonly listener: MessageListener,
    /** The request names a grpc-encoding that we can inflate. */
    private readonly mayBeCompressed = false,
  ) {}

  /** The body may end here: no message is under way. */
  get atBoundary(): boolean {
    return !this.inMessage && this.prefixRead === 0;
  }

  /** Takes the next bytes of the body, views of which are kept. Throws ServerError. */
  read(bytes: Uint8Array, start: number, end: number): void {
    let at = start;
    // An empty message is complete with its prefix, though nothing may follow.
    while (at < end || (this.inMessage && this.remaining === 0)) {
      if (!this.inMessage) {
        if (this.prefixRead === 0 && end - at >= PREFIX_BYTES) {
          this.begin(bytes, at);
          at += PREFIX_BYTES;
        } else {
          at = this.gatherPrefix(bytes, at, end);
          if (!this.inMessage) continue;
        }
      }
      const take = Math.min(this.remaining, end - at);
      this.remaining -= take;
      if (this.remaining === 0) this.finish(bytes, at, at + take);
      else if (take > 0) this.keep(bytes, at, at + take);
      at += take;
    }
  }

  private finish(bytes: Uint8Array, start: number, end: number): void {
    this.inMessage = false;
    if (this.chunks === undefined) {
      this.listener.message(Chunks.of(bytes.subarray(start, end)), this.compressed);
      return;
    }
    this.keep(bytes, start, end);
    this.closeGathered();
    const chunks = this.chunks;
    this.chunks = undefined;
    this.listener.message(Chunks.from(chunks), this.compressed);
  }

  /** Adds a piece to the message under way. */
  private keep(bytes: Uint8Array, start: number, end: number): void {
    this.chunks ??= [];
    if (end - start >= SCRAP_BYTES) {
      this.closeGathered();
      this.chunks.push(bytes.subarray(start, end));
      return;
    }
    for (let at = start; at < end; ) {
      this.gathered ??= new Uint8Array(Math.min(GATHER_BYTES, this.remaining + end - at));
      const take = Math.min(end - at, this.gathered.length - this.gatheredBytes);
      this.gathered.set(bytes.subarray(at, at + take), this.gatheredBytes);
      this.gatheredBytes += take;
      at += take;
      if (this.gatheredBytes === this.gathered.length) this.closeGathered();
    }
  }

  private closeGathered(): void {
    if (this.gathered === undefined) return;
    this.chunks!.push(this.gathered.subarray(0, this.gatheredBytes));
    this.gathered = undefined;
    this.gatheredBytes = 0;
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
    if (flag > 1) throw new ServerError("INTERNAL", `message with compressed flag ${flag}: expected 0 or 1`);
    // Without an encoding a message that says it is compressed cannot be read (gRPC's compression.md).
    if (flag === 1 && !this.mayBeCompressed) {
      throw new ServerError("INTERNAL", "message with compressed flag 1, but grpc-encoding is identity");
    }
    this.compressed = flag === 1;
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

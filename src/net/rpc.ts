// One gRPC call on one HTTP/2 stream, for every kind of method: messages in, messages out, one status at the end.
//
// Invariants: a call ends exactly once, by `end`, its deadline, or its peer; after that nothing is sent and every
// `released` still runs. Cancel listeners run only when the call ended otherwise than by `end`. Made by
// `grpc-server.ts`; unary methods are an adapter over it (`unary.ts`).

import { NS_PER_S } from "../base/clock.ts";
import { ServerError, type StatusCode } from "../base/errors.ts";
import { RECEIVE_PROGRESS_NS } from "../base/limits.ts";
import type { ByteSource } from "../tensor/byte-source.ts";
import { type CallEncodings, NO_COMPRESSION } from "./compression.ts";
import type { Deadlines, Expiring } from "./deadlines.ts";
import { H2_ERROR, writeUint32 } from "./frames.ts";
import {
  RESPONSE_HEADERS,
  RESPONSE_HEADERS_GZIP,
  type Status,
  TRAILERS_OK,
  trailers,
  trailersOnly,
} from "./grpc-headers.ts";
import type { GivenUpReason, Http2Stream, StreamReceiver } from "./http2-stream.ts";
import { type InboxOwner, MessageInbox } from "./message-inbox.ts";
import { type MessageListener, MessageReader, PREFIX_BYTES } from "./message-reader.ts";
import { Metadata, metadataValue } from "./metadata.ts";
import type { ReceiveBudget, Receiving, Reception } from "./receive-budget.ts";
import { type OutboxOwner, ReplyOutbox } from "./reply-outbox.ts";
import type { SendBudget } from "./send-budget.ts";
import type { Turns } from "./turns.ts";

/** Why a call ended before its method ended it. */
export type CancelReason = "deadline" | "peer" | "stopping";

/** What a method may know about its call, and say beside its messages. */
export interface CallContext {
  readonly path: string;
  /** The client's address, `host:port`. */
  readonly peer: string;
  readonly metadata: Metadata;
  /** On the server's clock, in monotonic nanoseconds; undefined when the client set none. */
  readonly deadlineNs: number | undefined;
  /** The call is over: whatever is still sent is dropped. */
  readonly ended: boolean;
  /** Runs `listener` when the call ends otherwise than by its method, at once if it has; never after `end`. */
  onCancel(listener: (reason: CancelReason) => void): void;
  /** Adds trailing metadata; a name that ends in "-bin" takes bytes. Names are lower case. */
  setTrailer(name: string, value: string | Uint8Array): void;
}

/** What a call needs of its server. */
export interface RpcOwner {
  readonly messageReceiveBytesMax: number;
  readonly messageSendBytesMax: number;
  readonly deadlines: Deadlines;
  readonly receiveBudget: ReceiveBudget;
  readonly sendBudget: SendBudget;
  /** At zlib's work on the thread pool. */
  readonly compressionTurns: Turns;
  /** A call ended. */
  ended(): void;
  /** Something threw that is not a ServerError. */
  defect(path: string, error: unknown): void;
}

/** Hears the client's side of a call. What it throws ends the call: a ServerError with its code, else INTERNAL. */
export interface RpcReceiver {
  /** Messages are held until the last has come; else each is the method's own as soon as it is told. */
  readonly holdsMessages?: boolean;
  message(message: ByteSource): void;
  /** The client has sent its last message. */
  halfClose(): void;
}

// Filled anew for every message that is copied out at once.
const sharedPrefix = new Uint8Array(PREFIX_BYTES);

export class Rpc implements CallContext, StreamReceiver, MessageListener, Expiring, Receiving, InboxOwner, OutboxOwner {
  receiver: RpcReceiver | undefined;
  heapIndex = -1;
  ended = false;
  private headersSent = false;
  private cancelReason: CancelReason | undefined;
  private listeners: ((reason: CancelReason) => void)[] | undefined;
  private trailerFields: [string, string][] | undefined;
  private reader: MessageReader | undefined;
  private reception: Reception | undefined;
  // Made for calls with compressed messages only.
  private inbox: MessageInbox | undefined;
  private outbox: ReplyOutbox | undefined;
  /** The client has said everything, but the method has not heard it all yet. */
  private halfClosing = false;
  /** The method has ended the call; its last replies are still being compressed. */
  private closing: Status | undefined;

  constructor(
    private readonly stream: Http2Stream,
    private readonly owner: RpcOwner,
    readonly path: string,
    readonly peer: string,
    private readonly fields: readonly string[],
    readonly deadlineNs: number | undefined,
    private readonly encodings: CallEncodings = NO_COMPRESSION,
  ) {
    if (deadlineNs !== undefined) owner.deadlines.add(this);
  }

  get metadata(): Metadata {
    return new Metadata(this.fields);
  }

  onCancel(listener: (reason: CancelReason) => void): void {
    if (this.cancelReason !== undefined) listener(this.cancelReason);
    else if (!this.over) {
      this.listeners ??= [];
      this.listeners.push(listener);
    }
  }

  /** The method has ended the call, or it has ended by itself. */
  private get over(): boolean {
    return this.ended || this.closing !== undefined;
  }

  setTrailer(name: string, value: string | Uint8Array): void {
    this.trailerFields ??= [];
    this.trailerFields.push([name, metadataValue(name, value)]);
  }

  /**
   * Sends one message, `chunks` in order. They belong to the call until `released` is called, exactly once: when they are
   * written, copied into the connection's bounded buffer, or dropped. Throws RESOURCE_EXHAUSTED above the limit, or when
   * too many replies wait to be read.
   */
  sendMessage(chunks: readonly Uint8Array[], released?: () => void): void {
    if (this.over) {
      released?.();
      return;
    }
    const bytes = this.checkedBytes(chunks, released);
    const { sendBudget } = this.owner;
    if (!sendBudget.admits(bytes)) {
      released?.();
      throw new ServerError(
        "RESOURCE_EXHAUSTED",
        `reply of ${bytes} bytes: ${sendBudget.queuedBytes} bytes wait for clients to read them, at most ${sendBudget.bytesMax}`,
      );
    }
    if (this.encodings.reply === undefined) {
      this.transmit(chunks, bytes, false, released);
      return;
    }
    this.outbox ??= new ReplyOutbox(this, sendBudget, this.owner.compressionTurns);
    this.outbox.send(chunks, bytes, released);
  }

  transmit(chunks: readonly Uint8Array[], bytes: number, compressed: boolean, released?: () => void): void {
    const headers = this.encodings.reply === undefined ? RESPONSE_HEADERS : RESPONSE_HEADERS_GZIP;
    if (!this.headersSent) this.stream.sendHeaders(headers, false);
    this.headersSent = true;
    const prefix = new Uint8Array(PREFIX_BYTES);
    prefix[0] = compressed ? 1 : 0;
    writeUint32(prefix, 1, bytes);
    this.stream.sendData([prefix, ...chunks], PREFIX_BYTES + bytes, released);
  }

  /** Sends the only message and status OK. As `sendMessage` and `end`, in one step if it fits. */
  sendOnly(chunks: readonly Uint8Array[], released?: () => void): void {
    const compresses = this.encodings.reply !== undefined;
    if (compresses || this.ended || this.headersSent || this.trailerFields !== undefined) {
      this.sendMessage(chunks, released);
      this.end("OK");
      return;
    }
    const bytes = this.checkedBytes(chunks, released);
    writeUint32(sharedPrefix, 1, bytes);
    if (this.stream.sendWhole(RESPONSE_HEADERS, sharedPrefix, chunks, bytes, TRAILERS_OK)) {
      this.finish();
      released?.();
      return;
    }
    this.sendMessage(chunks, released);
    this.end("OK");
  }

  /** Ends the call with a status; a call that has ended stays as it is. */
  end(code: StatusCode, message = ""): void {
    if (this.over) return;
    const status = { code, message };
    if (this.outbox?.busy) {
      this.closing = status;
      this.listeners = undefined;
      this.stopReceiving();
      return;
    }
    const metadata = this.trailerFields ?? [];
    this.finish();
    if (!this.headersSent) this.stream.sendHeaders(trailersOnly(status, metadata), true);
    else if (code === "OK" && metadata.length === 0) this.stream.sendTrailers(TRAILERS_OK);
    else this.stream.sendTrailers(trailers(status, metadata));
  }

  outboxEmptied(): void {
    const status = this.closing;
    this.closing = undefined;
    if (status !== undefined) this.end(status.code, status.message);
  }

  /** Ends the call with what was thrown: a ServerError's code and message; anything else is INTERNAL, and a defect. */
  fail(thrown: unknown): void {
    if (thrown instanceof ServerError) {
      this.end(thrown.code, thrown.message);
      return;
    }
    this.owner.defect(this.path, thrown);
    this.end("INTERNAL", "internal error; the server's log has its cause");
  }

  // -- what the stream tells

  data(bytes: Uint8Array, start: number, end: number, last: boolean): void {
    if (this.over) return;
    try {
      const mayBeCompressed = this.encodings.request !== undefined;
      this.reader ??= new MessageReader(this.owner.messageReceiveBytesMax, this, mayBeCompressed);
      this.reader.read(bytes, start, end);
    } catch (error) {
      this.fail(error);
    }
    // What comes with its end is not held; so a small request never meets the budget.
    if (!last || this.inbox?.busy) this.hold(end - start);
  }

  private hold(bytes: number): void {
    if (this.over) return;
    if (this.holdsNothing) this.letGo();
    else this.charge(bytes);
  }

  /** The method has all that came; what a method of one message gets is held until the message's end. */
  private get holdsNothing(): boolean {
    return this.reader!.atBoundary && !this.inbox?.busy && !this.receiver?.holdsMessages;
  }

  charge(bytes: number): void {
    this.reception ??= this.owner.receiveBudget.begin(this);
    this.owner.receiveBudget.charge(this.reception, bytes);
  }

  private letGo(): void {
    if (this.reception === undefined) return;
    this.owner.receiveBudget.release(this.reception);
    this.reception = undefined;
  }

  overBudget(heldBytes: number, bytesMax: number): void {
    this.end("RESOURCE_EXHAUSTED", `${heldBytes} bytes of requests are being received, at most ${bytesMax} may be`);
  }

  message(message: ByteSource, compressed: boolean): void {
    if (this.over) return;
    const { request } = this.encodings;
    if (request === undefined) {
      this.receiver?.message(message);
      return;
    }
    const { messageReceiveBytesMax, compressionTurns } = this.owner;
    this.inbox ??= new MessageInbox(this, request, messageReceiveBytesMax, compressionTurns);
    this.inbox.take(message, compressed);
  }

  deliver(message: ByteSource): void {
    this.receiver?.message(message);
  }

  inboxEmptied(): void {
    if (this.halfClosing) this.tellHalfClose();
    else if (!this.over && this.holdsNothing) this.letGo();
  }

  halfClosed(): void {
    if (this.over) return;
    try {
      if (this.reader !== undefined && !this.reader.atBoundary) {
        throw new ServerError("INTERNAL", "the request ended in the middle of a message");
      }
      if (this.inbox?.busy) this.halfClosing = true;
      else this.tellHalfClose();
    } catch (error) {
      this.fail(error);
    }
  }

  private tellHalfClose(): void {
    this.letGo();
    this.receiver?.halfClose();
  }

  aborted(): void {
    this.cancel("peer");
  }

  givenUp(reason: GivenUpReason): void {
    if (reason === "stopping") this.endBy("UNAVAILABLE", "the server is shutting down", "stopping");
    else {
      const seconds = RECEIVE_PROGRESS_NS / NS_PER_S;
      this.endBy("DEADLINE_EXCEEDED", `${this.path}: the request made no progress for ${seconds} s`, "deadline");
    }
  }

  expire(): void {
    this.endBy("DEADLINE_EXCEEDED", `${this.path}: deadline exceeded`, "deadline");
  }

  private endBy(code: StatusCode, message: string, reason: CancelReason): void {
    if (this.ended) return;
    // What the method has queued is dropped: nobody waits for it.
    if (!this.headersSent) this.stream.sendHeaders(trailersOnly({ code, message }, []), true);
    else this.stream.reset(H2_ERROR.CANCEL);
    this.cancel(reason);
  }

  private cancel(reason: CancelReason): void {
    if (this.ended) return;
    const listeners = this.listeners;
    this.cancelReason = reason;
    this.finish();
    for (const listener of listeners ?? []) {
      try {
        listener(reason);
      } catch (error) {
        this.owner.defect(this.path, error);
      }
    }
  }

  private finish(): void {
    this.ended = true;
    this.listeners = undefined;
    // The stream may live on until its trailers are read; what came on it need not.
    this.stopReceiving();
    if (this.heapIndex >= 0) this.owner.deadlines.remove(this);
    this.owner.ended();
  }

  private stopReceiving(): void {
    this.letGo();
    this.reader = undefined;
    this.receiver = undefined;
    this.inbox = undefined;
  }

  private checkedBytes(chunks: readonly Uint8Array[], released: (() => void) | undefined): number {
    let bytes = 0;
    for (let index = 0; index < chunks.length; index++) bytes += chunks[index]!.length;
    if (bytes <= this.owner.messageSendBytesMax) return bytes;
    released?.();
    const limit = this.owner.messageSendBytesMax;
    throw new ServerError("RESOURCE_EXHAUSTED", `reply message of ${bytes} bytes exceeds the limit of ${limit} bytes`);
  }
}

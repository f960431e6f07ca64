// Unary methods as an adapter over the call of any kind: one message in, one out.
//
// Invariant: `release` of every reply runs exactly once, also when the call is gone before the reply comes. Used by
// `grpc-server.ts`.

import { ServerError } from "../base/errors.ts";
import type { ByteSource } from "../tensor/byte-source.ts";
import type { CallContext, Rpc, RpcReceiver } from "./rpc.ts";

export interface UnaryReply {
  /** The message, in order. */
  readonly chunks: readonly Uint8Array[];
  /** The chunks may be reused: they are written, copied or dropped. */
  readonly release?: (() => void) | undefined;
}

export interface UnaryMethod {
  readonly kind: "unary";
  /** Answers one request. What it throws is the call's status (`Rpc.fail`). `request` is readable for as long as it is held. */
  handle(request: ByteSource, call: CallContext): UnaryReply | Promise<UnaryReply>;
}

/** The receiver of one call of a unary method. */
export class UnaryReceiver implements RpcReceiver {
  readonly holdsMessages = true;
  private request: ByteSource | undefined;

  constructor(
    private readonly rpc: Rpc,
    private readonly method: UnaryMethod,
  ) {}

  message(message: ByteSource): void {
    // https://grpc.io/docs/guides/status-codes/: a request cardinality violation is UNIMPLEMENTED.
    if (this.request !== undefined)
      throw new ServerError("UNIMPLEMENTED", "a unary method takes one message, two came");
    this.request = message;
  }

  halfClose(): void {
    const request = this.request;
    if (request === undefined) throw new ServerError("UNIMPLEMENTED", "a unary method takes one message, none came");
    this.request = undefined;
    const reply = this.method.handle(request, this.rpc);
    if (!(reply instanceof Promise)) {
      this.rpc.sendOnly(reply.chunks, reply.release);
      return;
    }
    reply
      .then((settled) => this.rpc.sendOnly(settled.chunks, settled.release))
      .catch((error: unknown) => this.rpc.fail(error));
  }
}

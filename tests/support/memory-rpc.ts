// A call of a streaming method without a connection: the client's side is two functions, what was sent is kept.
//
// The call is the real one (net/rpc.ts), on a stream whose sender takes nothing: what is sent stays queued until `read`.
// Used by tests of src/service/.

import { type DescMessage, fromBinary, type MessageShape } from "@bufbuild/protobuf";
import { systemClock } from "../../src/base/clock.ts";
import type { StatusCode } from "../../src/base/errors.ts";
import { Deadlines } from "../../src/net/deadlines.ts";
import type { Method } from "../../src/net/grpc-server.ts";
import { Http2Stream } from "../../src/net/http2-stream.ts";
import { PREFIX_BYTES } from "../../src/net/message-reader.ts";
import { ReceiveBudget } from "../../src/net/receive-budget.ts";
import { Rpc } from "../../src/net/rpc.ts";
import { SendBudget } from "../../src/net/send-budget.ts";
import { Turns } from "../../src/net/turns.ts";

class RecordingRpc extends Rpc {
  status: string | undefined;
  override end(code: StatusCode, message = ""): void {
    if (!this.ended) this.status = message === "" ? code : `${code} ${message}`;
    super.end(code, message);
  }
}

export interface MemoryRpc {
  readonly rpc: Rpc;
  /** The status that the method ended the call with, `CODE message`; undefined while it is open. */
  readonly status: string | undefined;
  /** What was thrown and is no ServerError. */
  readonly defects: unknown[];
  /** The client sends a message. */
  send(message: Uint8Array): void;
  /** The client has sent its last message. */
  halfClose(): void;
  /** The client goes away. */
  vanish(): void;
  /** Takes the messages sent since the last time. */
  read<T extends DescMessage>(schema: T): MessageShape<T>[];
}

/** Opens a call of a streaming method. */
export function openMemoryRpc(method: Method | undefined): MemoryRpc {
  if (method?.kind !== "streaming") throw new Error("not a streaming method");
  const defects: unknown[] = [];
  const ignore = () => {};
  const sender = { borrowedReplies: 0, queued: ignore, schedule: ignore, reset: ignore, sendWhole: () => false };
  const stream = new Http2Stream(1, sender, 65_535);
  const owner = {
    messageReceiveBytesMax: 2 ** 22,
    messageSendBytesMax: 2 ** 22,
    deadlines: new Deadlines(systemClock),
    receiveBudget: new ReceiveBudget(2 ** 22, systemClock),
    sendBudget: new SendBudget(2 ** 22, systemClock),
    compressionTurns: new Turns(1),
    ended: ignore,
    defect: (_path: string, error: unknown) => void defects.push(error),
  };
  const rpc = new RecordingRpc(stream, owner, "/test", "memory:0", [], undefined);
  try {
    rpc.receiver = method.open(rpc);
  } catch (error) {
    rpc.fail(error);
  }
  return {
    rpc,
    defects,
    get status() {
      return rpc.status;
    },
    send(message) {
      const framed = new Uint8Array(PREFIX_BYTES + message.length);
      new DataView(framed.buffer).setUint32(1, message.length);
      framed.set(message, PREFIX_BYTES);
      rpc.data(framed, 0, framed.length, false);
    },
    halfClose: () => rpc.halfClosed(),
    vanish: () => rpc.aborted(),
    read(schema) {
      const bytes = Buffer.concat(stream.pieces.map((piece) => piece.bytes));
      while (stream.pieces.length > 0) stream.shiftPiece();
      const messages = [];
      for (let at = 0; at < bytes.length; ) {
        const end = at + PREFIX_BYTES + bytes.readUInt32BE(at + 1);
        messages.push(fromBinary(schema, new Uint8Array(bytes.subarray(at + PREFIX_BYTES, end))));
        at = end;
      }
      return messages;
    },
  };
}

// The gRPC server: listens, makes a connection of each socket, and a call of each request.
//
// Invariants: a request that is not gRPC is answered by HTTP status, everything else by a gRPC status; replies of one
// turn of the event loop leave in one write a connection. The one door for gRPC sockets; started by `worker/`.

import type { Socket } from "bun";
import type { Clock, Timer } from "../base/clock.ts";
import { COMPRESSION_TURNS_MAX, CROWDED_LOG_NS, PEER_LOOK_NS } from "../base/limits.ts";
import { acceptsGzip, type CallEncodings, requestEncoding, SUPPORTED_ENCODINGS } from "./compression.ts";
import { Deadlines } from "./deadlines.ts";
import {
  isGrpcContentType,
  METHOD_NOT_ALLOWED,
  parseTimeoutNs,
  type Refusal,
  UNSUPPORTED_MEDIA_TYPE,
} from "./grpc-headers.ts";
import { Handshakes, type Tls, tlsOptions } from "./handshakes.ts";
import { type ConnectionOwner, Http2Connection, type Http2Limits } from "./http2-connection.ts";
import type { Http2Stream, StreamReceiver } from "./http2-stream.ts";
import { ReceiveBudget } from "./receive-budget.ts";
import type { RequestHead } from "./request-head.ts";
import { Rpc, type RpcOwner, type RpcReceiver } from "./rpc.ts";
import { SendBudget } from "./send-budget.ts";
import { Turns } from "./turns.ts";
import { type UnaryMethod, UnaryReceiver } from "./unary.ts";

/** A method of any kind: `open` answers through the call's `sendMessage` and `end`. */
export interface StreamingMethod {
  readonly kind: "streaming";
  open(call: Rpc): RpcReceiver;
}

export type Method = UnaryMethod | StreamingMethod;

export interface GrpcLimits extends Http2Limits {
  readonly messageReceiveBytesMax: number;
  readonly messageSendBytesMax: number;
  /** Bytes of all requests that are being received. */
  readonly receiveBytesMax: number;
  /** Bytes of all replies that wait for their clients. */
  readonly sendBytesMax: number;
  /** Open connections; more are closed at once. */
  readonly connectionsMax: number;
}

export interface GrpcServerOptions {
  readonly host: string;
  /** 0 lets the system choose. */
  readonly port: number;
  /** By path, `/package.Service/Method`. */
  readonly methods: ReadonlyMap<string, Method>;
  readonly limits: GrpcLimits;
  /** Undefined: the port speaks plain text. */
  readonly tls: Tls | undefined;
  /** Replies to clients that accept gzip are compressed with it. */
  readonly compressesReplies: boolean;
  readonly clock: Clock;
  /** A method threw something that is not a ServerError: for the log. */
  readonly onDefect: (path: string, error: unknown) => void;
  /** Connections were turned away, since so many are open; told at most every CROWDED_LOG_NS. */
  readonly onCrowded: (connections: number) => void;
}

export interface GrpcServer {
  readonly port: number;
  /** Open connections. */
  readonly connections: number;
  /** Calls that have not ended. */
  readonly activeCalls: number;
  /** Stops accepting, lets calls finish for at most `graceNs`, then stops. Resolves when every connection is closed. */
  drain(graceNs: number): Promise<void>;
  /** Closes everything at once. */
  stop(): void;
}

/** What gRPC makes of a header list; kept with it, since equal requests share theirs. */
interface GrpcHead {
  /** The response to a request that is not gRPC. */
  readonly refusal: Refusal | undefined;
  readonly method: Method | undefined;
  /** A grpc-encoding that we can't read. */
  readonly unknownEncoding: string | undefined;
  readonly encodings: CallEncodings;
  /** The text of grpc-timeout. */
  readonly timeout: string | undefined;
  readonly timeoutNs: number | undefined;
}

/** Answers a request that is not gRPC once it is complete. */
class RefusalReceiver implements StreamReceiver {
  constructor(
    private readonly stream: Http2Stream,
    private readonly refusal: Refusal,
  ) {}
  data(): void {}
  halfClosed(): void {
    this.stream.sendHeaders(this.refusal.headers, false);
    this.stream.sendData([this.refusal.body], this.refusal.body.length);
    this.stream.sendEnd();
  }
  aborted(): void {}
  givenUp(): void {
    this.halfClosed();
  }
}

class Server implements GrpcServer, RpcOwner {
  readonly deadlines: Deadlines;
  readonly messageReceiveBytesMax: number;
  readonly messageSendBytesMax: number;
  readonly receiveBudget: ReceiveBudget;
  readonly sendBudget: SendBudget;
  readonly compressionTurns = new Turns(COMPRESSION_TURNS_MAX);
  activeCalls = 0;
  private readonly open = new Set<Http2Connection>();
  private readonly awake: Http2Connection[] = [];
  private readonly handshakes: Handshakes<Http2Connection | undefined>;
  private readonly listener: Bun.TCPSocketListener<Http2Connection | undefined>;
  private drained: (() => void) | undefined;
  private looks: Timer | undefined;
  private crowdedAtNs = Number.NEGATIVE_INFINITY;

  constructor(private readonly options: GrpcServerOptions) {
    const { limits, clock, tls } = options;
    this.deadlines = new Deadlines(clock);
    this.messageReceiveBytesMax = limits.messageReceiveBytesMax;
    this.messageSendBytesMax = limits.messageSendBytesMax;
    this.receiveBudget = new ReceiveBudget(limits.receiveBytesMax, clock);
    this.sendBudget = new SendBudget(limits.sendBytesMax, clock);
    this.handshakes = new Handshakes(tls?.clientCa !== undefined, clock);
    this.listener = Bun.listen<Http2Connection | undefined>({
      hostname: options.host,
      port: options.port,
      ...(tls && { tls: tlsOptions(tls) }),
      socket: {
        binaryType: "uint8array",
        open: (socket) => this.opened(socket),
        handshake: (socket, success, fault) => {
          if (this.handshakes.end(socket, success, fault)) this.accept(socket);
        },
        // Bun hands out memory of its own for every chunk and never writes to it again (seen on 1.4.5: chunks of up to
        // 512 KiB, each with its own buffer), so a message can be made of views of it.
        data: (socket, bytes) => socket.data?.received(bytes),
        drain: (socket) => socket.data?.drained(),
        close: (socket) => this.closed(socket),
        error: (socket) => this.closed(socket),
      },
    });
  }

  get port(): number {
    return this.listener.port;
  }

  get connections(): number {
    return this.open.size;
  }

  drain(graceNs: number): Promise<void> {
    this.listener.stop(false);
    this.handshakes.stop();
    for (const connection of this.open) connection.drain();
    if (this.open.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      // What is still open is told, and goes when it has heard, or after its linger.
      const timer = this.options.clock.after(graceNs, () => {
        for (const connection of [...this.open]) connection.stop();
      });
      this.drained = () => {
        timer.cancel();
        resolve();
      };
    });
  }

  stop(): void {
    this.listener.stop(false);
    this.handshakes.stop();
    for (const connection of [...this.open]) {
      connection.stop();
      connection.terminate();
      this.forget(connection);
    }
    this.deadlines.clear();
    this.receiveBudget.stop();
  }

  ended(): void {
    this.activeCalls--;
  }

  defect(path: string, error: unknown): void {
    this.options.onDefect(path, error);
  }

  private opened(socket: Socket<Http2Connection | undefined>): void {
    if (this.open.size + this.handshakes.size >= this.options.limits.connectionsMax) {
      // Without a descriptor left the listener could not even refuse: it would be told of the same connection for ever.
      this.tellCrowded();
      socket.terminate();
      return;
    }
    socket.setNoDelay(true);
    if (this.options.tls === undefined) {
      this.accept(socket);
      return;
    }
    this.handshakes.begin(socket);
    this.watch();
  }

  private closed(socket: Socket<Http2Connection | undefined>): void {
    this.handshakes.forget(socket);
    this.forget(socket.data);
  }

  private accept(socket: Socket<Http2Connection | undefined>): void {
    const peer = `${socket.remoteAddress}:${socket.remotePort}`;
    const owner: ConnectionOwner = {
      request: (stream, head) => this.request(stream, head, peer),
      wake: (connection) => this.wake(connection),
    };
    const transport = {
      // A closed socket answers -1; its close event follows.
      write: (bytes: Uint8Array, start: number, end: number) => Math.max(socket.write(bytes, start, end - start), 0),
      shutdown: () => socket.shutdown(),
      terminate: () => socket.terminate(),
    };
    const connection = new Http2Connection(transport, owner, this.options.limits, this.options.clock, this.sendBudget);
    socket.data = connection;
    this.open.add(connection);
    this.watch();
    connection.flush();
  }

  private tellCrowded(): void {
    const nowNs = this.options.clock.nowNs();
    if (nowNs - this.crowdedAtNs < CROWDED_LOG_NS) return;
    this.crowdedAtNs = nowNs;
    this.options.onCrowded(this.open.size);
  }

  /** One timer looks after all connections, while there are any. */
  private watch(): void {
    if (this.open.size + this.handshakes.size === 0) return;
    this.looks ??= this.options.clock.after(PEER_LOOK_NS, () => {
      this.looks = undefined;
      this.handshakes.look();
      for (const connection of this.open) connection.look();
      this.watch();
    });
  }

  private forget(connection: Http2Connection | undefined): void {
    if (connection === undefined) return; // turned away, or in its handshake
    connection.lost();
    if (this.open.delete(connection) && this.open.size === 0) this.drained?.();
  }

  private wake(connection: Http2Connection): void {
    // One microtask serves all replies that this turn produces: those of one batch are settled before it runs.
    if (this.awake.push(connection) === 1) queueMicrotask(() => this.flushAwake());
  }

  private flushAwake(): void {
    for (let index = 0; index < this.awake.length; index++) this.awake[index]!.flush();
    this.awake.length = 0;
  }

  private request(stream: Http2Stream, head: RequestHead, peer: string): void {
    head.derived ??= this.interpret(head);
    const grpc = head.derived as GrpcHead;
    if (grpc.refusal !== undefined) {
      stream.receiver = new RefusalReceiver(stream, grpc.refusal);
      return;
    }
    const deadlineNs = grpc.timeoutNs === undefined ? undefined : this.options.clock.nowNs() + grpc.timeoutNs;
    const rpc = new Rpc(stream, this, head.path, peer, head.fields, deadlineNs, grpc.encodings);
    this.activeCalls++;
    stream.receiver = rpc;
    const { method } = grpc;
    if (head.tooLarge) {
      const limit = this.options.limits.headerListBytesMax;
      rpc.end("RESOURCE_EXHAUSTED", `header list exceeds the limit of ${limit} bytes`);
    } else if (method === undefined) rpc.end("UNIMPLEMENTED", `unknown method ${head.path}`);
    else if (grpc.unknownEncoding !== undefined) {
      rpc.setTrailer("grpc-accept-encoding", SUPPORTED_ENCODINGS);
      const supported = `supported: ${SUPPORTED_ENCODINGS}`;
      rpc.end("UNIMPLEMENTED", `grpc-encoding ${grpc.unknownEncoding} is not supported; ${supported}`);
    } else if (grpc.timeout !== undefined && grpc.timeoutNs === undefined) {
      rpc.end("INVALID_ARGUMENT", `grpc-timeout: expected 1 to 8 digits and one of HMSmun, received ${grpc.timeout}`);
    } else if (grpc.timeoutNs === 0) rpc.expire();
    else if (method.kind === "unary") rpc.receiver = new UnaryReceiver(rpc, method);
    else this.openStreaming(rpc, stream, method);
  }

  private openStreaming(rpc: Rpc, stream: Http2Stream, method: StreamingMethod): void {
    stream.mayPause = true;
    try {
      rpc.receiver = method.open(rpc);
    } catch (error) {
      rpc.fail(error);
    }
  }

  private interpret(head: RequestHead): GrpcHead {
    const field = (name: string) => {
      const at = head.fields.findIndex((text, index) => index % 2 === 0 && text === name);
      return at < 0 ? undefined : head.fields[at + 1];
    };
    let refusal: Refusal | undefined;
    if (!head.tooLarge && head.method !== "POST") refusal = METHOD_NOT_ALLOWED;
    else if (!head.tooLarge && !isGrpcContentType(field("content-type"))) refusal = UNSUPPORTED_MEDIA_TYPE;
    const encoding = requestEncoding(field("grpc-encoding"));
    const compressesReply = this.options.compressesReplies && acceptsGzip(field("grpc-accept-encoding"));
    const timeout = field("grpc-timeout");
    return {
      refusal,
      method: this.options.methods.get(head.path),
      unknownEncoding: encoding === "unknown" ? field("grpc-encoding") : undefined,
      encodings: {
        request: encoding === "unknown" ? undefined : encoding,
        reply: compressesReply ? "gzip" : undefined,
      },
      timeout,
      timeoutNs: timeout === undefined ? undefined : parseTimeoutNs(timeout),
    };
  }
}

/** Starts a server. Throws if the address can't be bound. */
export function startGrpcServer(options: GrpcServerOptions): GrpcServer {
  return new Server(options);
}

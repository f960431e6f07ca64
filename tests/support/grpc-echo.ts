// A small gRPC server and a stock client for the tests of `net/`: no KServe in either.
//
// Used by tests/e2e/net.test.ts and tests/e2e/h2spec.test.ts; both are disposable.

import * as grpc from "@grpc/grpc-js";
import { systemClock } from "../../src/base/clock.ts";
import {
  type GrpcLimits,
  type GrpcServer,
  type GrpcServerOptions,
  type Method,
  startGrpcServer,
} from "../../src/net/grpc-server.ts";
import { DEFAULT_LIMITS } from "./grpc-limits.ts";

export interface TestServer extends Disposable {
  readonly server: GrpcServer;
  readonly defects: unknown[];
}

/** A server on a free port with `methods`, beside /test.Echo/Unary, which answers with its request. */
export function startEcho(
  methods: Record<string, Method> = {},
  limits: Partial<GrpcLimits> = {},
  options: Partial<GrpcServerOptions> = {},
): TestServer {
  const defects: unknown[] = [];
  const server = startGrpcServer({
    host: "127.0.0.1",
    port: 0,
    methods: new Map<string, Method>([
      ["/test.Echo/Unary", { kind: "unary", handle: (request) => ({ chunks: request.chunks }) }],
      ...Object.entries(methods),
    ]),
    limits: { ...DEFAULT_LIMITS, ...limits },
    tls: undefined,
    compressesReplies: false,
    clock: systemClock,
    onDefect: (_, error) => defects.push(error),
    onCrowded: () => {},
    ...options,
  });
  return { server, defects, [Symbol.dispose]: () => server.stop() };
}

export interface TestClient extends Disposable {
  readonly client: grpc.Client;
  /** One unary call of raw bytes; rejects with grpc-js's ServiceError. */
  call(path: string, request: Uint8Array, options?: grpc.CallOptions & { metadata?: grpc.Metadata }): Promise<Buffer>;
}

/** grpc-js with a connection of its own and no message limits. */
export function connect(
  port: number,
  options: grpc.ClientOptions = {},
  credentials = grpc.credentials.createInsecure(),
): TestClient {
  const client = new grpc.Client(`127.0.0.1:${port}`, credentials, {
    "grpc.max_receive_message_length": -1,
    "grpc.max_send_message_length": -1,
    "grpc.use_local_subchannel_pool": 1,
    ...options,
  });
  return {
    client,
    call: (path, request, { metadata = new grpc.Metadata(), ...options } = {}) =>
      new Promise((resolve, reject) => {
        client.makeUnaryRequest(path, asBuffer, asIs, request, metadata, options, (error, reply) => {
          if (error) reject(error);
          else resolve(reply!);
        });
      }),
    [Symbol.dispose]: () => client.close(),
  };
}

const asBuffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
const asIs = (bytes: Buffer): Buffer => bytes;

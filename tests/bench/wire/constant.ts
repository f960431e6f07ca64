// The server under test at its barest: `net/` with one method that answers a constant, and one that echoes.
//
// Prints its port. Started by tests/bench/wire.ts, pinned to one core.

import { systemClock } from "../../../src/base/clock.ts";
import {
  HEADER_LIST_BYTES_MAX,
  MESSAGE_BYTES_MAX,
  RECEIVE_WINDOW_BYTES,
  STREAMS_PER_CONNECTION_MAX,
} from "../../../src/base/limits.ts";
import { type Method, startGrpcServer } from "../../../src/net/grpc-server.ts";

const constant = { chunks: [new Uint8Array(64)] };

const server = startGrpcServer({
  host: "127.0.0.1",
  port: 0,
  methods: new Map<string, Method>([
    ["/bench/Constant", { kind: "unary", handle: () => constant }],
    ["/bench/Echo", { kind: "unary", handle: (request) => ({ chunks: request.chunks }) }],
  ]),
  limits: {
    streamsMax: STREAMS_PER_CONNECTION_MAX,
    streamWindowBytes: RECEIVE_WINDOW_BYTES,
    connectionWindowBytes: RECEIVE_WINDOW_BYTES,
    headerListBytesMax: HEADER_LIST_BYTES_MAX,
    messageReceiveBytesMax: MESSAGE_BYTES_MAX,
    messageSendBytesMax: MESSAGE_BYTES_MAX,
    receiveBytesMax: 2 ** 30,
    sendBytesMax: 2 ** 30,
    connectionsMax: 1000,
  },
  tls: undefined,
  compressesReplies: false,
  clock: systemClock,
  onDefect: (path, error) => console.error(path, error),
  onCrowded: () => {},
});
console.log(server.port);

// The server under test at its barest: `net/` with one method that answers a constant, and one that echoes.
//
// Prints its port. Started by tests/bench/wire.ts, pinned to one core.

import { systemClock } from "../../../src/base/clock.ts";
import { type Method, startGrpcServer } from "../../../src/net/grpc-server.ts";
import { DEFAULT_LIMITS } from "../../support/grpc-limits.ts";

const constant = { chunks: [new Uint8Array(64)] };

const server = startGrpcServer({
  host: "127.0.0.1",
  port: 0,
  methods: new Map<string, Method>([
    ["/bench/Constant", { kind: "unary", handle: () => constant }],
    ["/bench/Echo", { kind: "unary", handle: (request) => ({ chunks: request.chunks }) }],
  ]),
  limits: DEFAULT_LIMITS,
  tls: undefined,
  compressesReplies: false,
  clock: systemClock,
  onDefect: (path, error) => console.error(path, error),
  onCrowded: () => {},
});
console.log(server.port);

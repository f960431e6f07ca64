// A server that does nothing: it answers every ModelInfer with the same embedding. Prints its port.
//
// The load that it takes off the benchmark's client is the client's alone, as it is beside the real server.

import { systemClock } from "../../../src/base/clock.ts";
import { startGrpcServer } from "../../../src/net/grpc-server.ts";
import { DEFAULT_LIMITS } from "../../support/grpc-limits.ts";

const reply = new Uint8Array(384 * 4);

const server = startGrpcServer({
  host: "127.0.0.1",
  port: 0,
  methods: new Map([
    ["/inference.GRPCInferenceService/ModelInfer", { kind: "unary", handle: () => ({ chunks: [reply] }) }],
  ]),
  limits: DEFAULT_LIMITS,
  tls: undefined,
  compressesReplies: false,
  clock: systemClock,
  onDefect: (_, error) => console.error(error),
  onCrowded: () => {},
});
console.log(server.port);

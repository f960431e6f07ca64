// The limits of servers of `net/` that tests and benchmarks start without a Config: the product's own.
//
// What a Config would give is set to its defaults. Used by grpc-echo.ts and by the servers of tests/bench.

import {
  HEADER_LIST_BYTES_MAX,
  MESSAGE_BYTES_MAX,
  RECEIVE_WINDOW_BYTES,
  STREAMS_PER_CONNECTION_MAX,
} from "../../src/base/limits.ts";
import type { GrpcLimits } from "../../src/net/grpc-server.ts";

export const DEFAULT_LIMITS: GrpcLimits = {
  streamsMax: STREAMS_PER_CONNECTION_MAX,
  streamWindowBytes: RECEIVE_WINDOW_BYTES,
  connectionWindowBytes: RECEIVE_WINDOW_BYTES,
  headerListBytesMax: HEADER_LIST_BYTES_MAX,
  messageReceiveBytesMax: MESSAGE_BYTES_MAX,
  messageSendBytesMax: MESSAGE_BYTES_MAX,
  receiveBytesMax: 2 ** 30,
  sendBytesMax: 2 ** 30,
  connectionsMax: 1000,
};

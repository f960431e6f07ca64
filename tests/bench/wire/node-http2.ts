// The baseline: a bare node:http2 server on Bun that answers as a gRPC server would, with no decoding at all.
//
// /bench/Constant answers 64 bytes when the request is complete, /bench/Echo what came. Default windows: with larger
// ones it stalls. Prints its port. Started by tests/bench/wire.ts, pinned to one core.

import http2 from "node:http2";
import type { AddressInfo } from "node:net";

const constant = Buffer.concat([Buffer.from([0, 0, 0, 0, 64]), Buffer.alloc(64)]);
const headers = { ":status": 200, "content-type": "application/grpc" };

const server = http2.createServer();
server.on("stream", (stream: http2.ServerHttp2Stream, request) => {
  stream.on("error", () => {});
  stream.respond(headers, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
  if (request[":path"] === "/bench/Echo") {
    const chunks: Buffer[] = [];
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("end", () => stream.end(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)));
    return;
  }
  stream.on("data", () => {});
  stream.on("end", () => stream.end(constant));
});
server.listen(0, "127.0.0.1", () => console.log((server.address() as AddressInfo).port));

// Our gRPC server and a stock client, through real sockets: sizes, concurrency, ends of every kind, and what remains.

import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import http2 from "node:http2";
import net from "node:net";
import * as grpc from "@grpc/grpc-js";
import { ServerError } from "../../src/base/errors.ts";
import type { CancelReason } from "../../src/net/rpc.ts";
import { connect, startEcho } from "../support/grpc-echo.ts";

const statusOf = (call: Promise<unknown>) =>
  call.then(
    () => ({ code: grpc.status.OK, details: "" }),
    ({ code, details }: grpc.ServiceError) => ({ code, details }),
  );

/** Waits until `condition` holds, giving the event loop its turns. */
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}

/** Resolves when the stream has taken so many bytes. */
const written = (stream: http2.ClientHttp2Stream, bytes: number) =>
  new Promise((resolve) => stream.write(Buffer.alloc(bytes), resolve));

const descriptors = () => readdirSync("/proc/self/fd").length;

test("payloads from 0 bytes to 200 MB come back unchanged", async () => {
  using echo = startEcho();
  using client = connect(echo.server.port);
  for (const size of [0, 1, 64, 16_379, 16_384, 65_530, 65_536, 602_112, 4 << 20, 40 << 20, 200 << 20]) {
    const sent = Buffer.alloc(size);
    for (let at = 0; at < size; at += 997) sent[at] = at;
    const reply = await client.call("/test.Echo/Unary", sent);
    expect([size, reply.equals(sent)]).toEqual([size, true]);
  }
}, 60_000);

test("many concurrent calls on one connection, each with its own reply, later ones first", async () => {
  using echo = startEcho({
    "/test.Echo/Later": {
      kind: "unary",
      handle: async (request) => {
        const bytes = request.contiguous();
        for (let turns = bytes[0]! % 7; turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve));
        return { chunks: [bytes] };
      },
    },
  });
  using client = connect(echo.server.port);
  const calls = Array.from({ length: 900 }, (_, index) => {
    const sent = Buffer.alloc(1 + ((index * 37) % 5000), index);
    return client.call("/test.Echo/Later", sent).then((reply) => reply.equals(sent));
  });
  expect((await Promise.all(calls)).filter((equal) => !equal)).toEqual([]);
  expect(echo.server.connections).toBe(1);
  expect(echo.server.activeCalls).toBe(0);
});

test("statuses: unknown method, ServerError, defect, oversize either way", async () => {
  using echo = startEcho(
    {
      "/test.Echo/Refuse": {
        kind: "unary",
        handle: () => Promise.reject(new ServerError("NOT_FOUND", "no such th\u00efng: 100%")),
      },
      "/test.Echo/Throw": {
        kind: "unary",
        handle: () => {
          throw new TypeError("a defect");
        },
      },
      "/test.Echo/Large": { kind: "unary", handle: () => ({ chunks: [new Uint8Array(2001)] }) },
    },
    { messageReceiveBytesMax: 1000, messageSendBytesMax: 2000 },
  );
  using client = connect(echo.server.port);
  const call = (path: string, bytes = 0) => statusOf(client.call(path, Buffer.alloc(bytes)));
  expect(await call("/nope/Nope")).toEqual({ code: grpc.status.UNIMPLEMENTED, details: "unknown method /nope/Nope" });
  expect(await call("/test.Echo/Refuse")).toEqual({
    code: grpc.status.NOT_FOUND,
    details: "no such th\u00efng: 100%",
  });
  expect((await call("/test.Echo/Throw")).code).toBe(grpc.status.INTERNAL);
  expect(echo.defects).toEqual([new TypeError("a defect")]);
  expect(await call("/test.Echo/Unary", 1001)).toEqual({
    code: grpc.status.RESOURCE_EXHAUSTED,
    details: "request message of 1001 bytes exceeds the limit of 1000 bytes",
  });
  expect(await call("/test.Echo/Large")).toEqual({
    code: grpc.status.RESOURCE_EXHAUSTED,
    details: "reply message of 2001 bytes exceeds the limit of 2000 bytes",
  });
  expect(await call("/test.Echo/Unary", 1_000_000)).toMatchObject({ code: grpc.status.RESOURCE_EXHAUSTED });
  expect(await call("/test.Echo/Unary", 1000)).toMatchObject({ code: grpc.status.OK });
});

test("metadata both ways, text and bytes", async () => {
  using echo = startEcho({
    "/test.Echo/Metadata": {
      kind: "unary",
      handle: (_, call) => {
        call.setTrailer("echo-text", call.metadata.get("text") ?? "none");
        call.setTrailer("echo-bin", call.metadata.bytes("some-bin")[0] ?? new Uint8Array());
        return { chunks: [] };
      },
    },
  });
  using client = connect(echo.server.port);
  const metadata = new grpc.Metadata();
  metadata.set("text", "value, with ~");
  metadata.set("some-bin", Buffer.from([0, 255, 10]));
  const trailers = await new Promise<grpc.Metadata>((resolve, reject) => {
    const raw = (bytes: Buffer) => bytes;
    const call = client.client.makeUnaryRequest("/test.Echo/Metadata", raw, raw, Buffer.alloc(0), metadata, (error) => {
      if (error) reject(error);
    });
    call.on("status", (status) => resolve(status.metadata));
  });
  expect(trailers.get("echo-text")).toEqual(["value, with ~"]);
  expect(trailers.get("echo-bin")).toEqual([Buffer.from([0, 255, 10])]);
});

test("deadline and cancellation reach the method; its late reply is dropped and released", async () => {
  const reasons: CancelReason[] = [];
  let deadlines = 0;
  let released = 0;
  let answer: (() => void) | undefined;
  using echo = startEcho({
    "/test.Echo/Never": {
      kind: "unary",
      handle: (_, call) => {
        if (call.deadlineNs !== undefined) deadlines++;
        return new Promise((resolve) => {
          answer = () => resolve({ chunks: [new Uint8Array(10)], release: () => released++ });
          call.onCancel((reason) => reasons.push(reason));
        });
      },
    },
  });
  using client = connect(echo.server.port);
  const late = client.call("/test.Echo/Never", Buffer.alloc(1), { deadline: Date.now() + 50 });
  expect(await statusOf(late)).toMatchObject({ code: grpc.status.DEADLINE_EXCEEDED });
  await until(() => reasons.length === 1);
  expect(deadlines).toBe(1);
  answer!();
  await until(() => released === 1);

  const raw = (bytes: Buffer) => bytes;
  const gone = Promise.withResolvers<grpc.ServiceError | null>();
  const call = client.client.makeUnaryRequest("/test.Echo/Never", raw, raw, Buffer.alloc(1), gone.resolve);
  await until(() => echo.server.activeCalls === 1);
  call.cancel();
  expect(await gone.promise).toMatchObject({ code: grpc.status.CANCELLED });
  await until(() => reasons.length === 2);
  expect(reasons[1]).toBe("peer");
  answer!();
  await until(() => released === 2);
  expect(echo.server.activeCalls).toBe(0);
});

test("a method of any kind answers message by message", async () => {
  using echo = startEcho({
    "/test.Echo/Twice": {
      kind: "streaming",
      open: (call) => ({
        message: (message) => {
          call.sendMessage(message.chunks);
          call.sendMessage(message.chunks);
        },
        halfClose: () => call.end("OK"),
      }),
    },
  });
  using client = connect(echo.server.port);
  const raw = (bytes: Buffer) => bytes;
  const stream = client.client.makeBidiStreamRequest("/test.Echo/Twice", raw, raw);
  const received: string[] = [];
  stream.on("data", (bytes: Buffer) => received.push(bytes.toString()));
  const ended = new Promise((resolve) => stream.on("status", resolve));
  for (const text of ["a", "bc", ""]) stream.write(Buffer.from(text));
  stream.end();
  expect(await ended).toMatchObject({ code: grpc.status.OK });
  expect(received).toEqual(["a", "a", "bc", "bc", "", ""]);
});

test("a slow reader holds its own reply back, not its neighbour, and the reply is complete", async () => {
  const body = Buffer.alloc(64 << 20, 9);
  let released = 0;
  using echo = startEcho({
    "/test.Echo/Download": { kind: "unary", handle: () => ({ chunks: [body], release: () => released++ }) },
  });
  using fast = connect(echo.server.port);
  using raw = await rawRequest(echo.server.port, "/test.Echo/Download", 2 ** 31 - 1);
  await until(() => raw.bytes > 0);
  raw.socket.pause();
  const before = process.memoryUsage().rss;
  for (let index = 0; index < 50; index++) {
    expect((await fast.call("/test.Echo/Unary", Buffer.alloc(1000))).length).toBe(1000);
  }
  expect(released).toBe(0);
  expect(process.memoryUsage().rss - before).toBeLessThan(32 << 20);
  raw.socket.resume();
  await until(() => raw.bytes > body.length);
  expect(released).toBe(1);
}, 30_000);

/** A bare HTTP/2 client that sends one request with an empty message, opens its windows, and counts what it is sent. */
async function rawRequest(port: number, path: string, windowBytes: number) {
  const socket = net.connect(port, "127.0.0.1");
  await new Promise((resolve) => socket.once("connect", resolve));
  const state = { socket, bytes: 0, [Symbol.dispose]: () => void socket.destroy() };
  socket.on("data", (chunk) => {
    state.bytes += chunk.length;
  });
  socket.on("error", () => {});
  const literal = (name: string, value: string) =>
    Buffer.concat([Buffer.from([0, name.length]), Buffer.from(name), Buffer.from([value.length]), Buffer.from(value)]);
  const head = Buffer.concat([
    Buffer.from([0x83, 0x86]),
    literal(":path", path),
    literal("content-type", "application/grpc"),
  ]);
  socket.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  socket.write(rawFrame(4, 0, 0, Buffer.concat([Buffer.from([0, 4]), uint32(windowBytes)])));
  socket.write(rawFrame(8, 0, 0, uint32(windowBytes - 65_535)));
  socket.write(rawFrame(1, 4, 1, head));
  socket.write(rawFrame(0, 1, 1, Buffer.alloc(5)));
  return state;
}

function rawFrame(type: number, flags: number, streamId: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(streamId, 5);
  return Buffer.concat([head, payload]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

test("a connection killed in the middle of a request or a reply cancels its calls and releases its memory", async () => {
  const reasons: CancelReason[] = [];
  let released = 0;
  using echo = startEcho({
    "/test.Echo/Wait": {
      kind: "unary",
      handle: (_, call) => new Promise(() => call.onCancel((reason) => reasons.push(reason))),
    },
    "/test.Echo/Download": {
      kind: "unary",
      handle: () => ({ chunks: [new Uint8Array(32 << 20)], release: () => released++ }),
    },
  });
  using waiting = await rawRequest(echo.server.port, "/test.Echo/Wait", 1 << 20);
  await until(() => echo.server.activeCalls === 1);
  waiting.socket.destroy();
  await until(() => reasons.length === 1 && echo.server.activeCalls === 0);
  using downloading = await rawRequest(echo.server.port, "/test.Echo/Download", 1 << 20);
  await until(() => downloading.bytes > 65_535);
  expect(released).toBe(0);
  downloading.socket.destroy();
  await until(() => released === 1 && echo.server.connections === 0);
});

test("drain lets running calls finish, refuses new ones, and closes the connections", async () => {
  const answers: (() => void)[] = [];
  const echo = startEcho({
    "/test.Echo/Wait": {
      kind: "unary",
      handle: (request) => new Promise((resolve) => answers.push(() => resolve({ chunks: request.chunks }))),
    },
  });
  using client = connect(echo.server.port);
  const running = [1, 2, 3].map((size) => client.call("/test.Echo/Wait", Buffer.alloc(size)));
  await until(() => answers.length === 3);
  const drained = echo.server.drain(60e9);
  using other = connect(echo.server.port);
  expect(await statusOf(other.call("/test.Echo/Unary", Buffer.alloc(1)))).toMatchObject({
    code: grpc.status.UNAVAILABLE,
  });
  for (const answer of answers) answer();
  expect((await Promise.all(running)).map((reply) => reply.length)).toEqual([1, 2, 3]);
  await drained;
  expect(echo.server.connections).toBe(0);
});

test("drain gives up after its grace", async () => {
  const reasons: CancelReason[] = [];
  const echo = startEcho({
    "/test.Echo/Wait": {
      kind: "unary",
      handle: (_, call) => new Promise(() => call.onCancel((reason) => reasons.push(reason))),
    },
  });
  using client = connect(echo.server.port);
  const running = statusOf(client.call("/test.Echo/Wait", Buffer.alloc(1)));
  await until(() => echo.server.activeCalls === 1);
  await echo.server.drain(20e6);
  expect(reasons).toEqual(["stopping"]);
  expect(await running).toEqual({ code: grpc.status.UNAVAILABLE, details: "the server is shutting down" });
});

test("a server that stops at once tells its calls before their connections go", async () => {
  const reasons: CancelReason[] = [];
  const echo = startEcho({
    "/test.Echo/Wait": {
      kind: "unary",
      handle: (_, call) => new Promise(() => call.onCancel((reason) => reasons.push(reason))),
    },
  });
  using client = connect(echo.server.port);
  const running = statusOf(client.call("/test.Echo/Wait", Buffer.alloc(1)));
  await until(() => echo.server.activeCalls === 1);
  echo.server.stop();
  expect(reasons).toEqual(["stopping"]);
  expect((await running).code).toBe(grpc.status.UNAVAILABLE);
});

test("connections above the bound are closed at once, and the others served", async () => {
  using echo = startEcho({}, { connectionsMax: 1 });
  using client = connect(echo.server.port);
  expect(await client.call("/test.Echo/Unary", Buffer.from("a"))).toEqual(Buffer.from("a"));
  using other = connect(echo.server.port);
  expect((await statusOf(other.call("/test.Echo/Unary", Buffer.from("b")))).code).toBe(grpc.status.UNAVAILABLE);
  expect(echo.server.connections).toBe(1);
  expect(await client.call("/test.Echo/Unary", Buffer.from("c"))).toEqual(Buffer.from("c"));
});

test("uploads beyond the receive budget: the newest go, the oldest ends, small calls pass", async () => {
  using echo = startEcho({}, { receiveBytesMax: 8 << 20 });
  const statuses = new Map<number, number>();
  // Promises 6 MB each, sends 3 MB: the third is one too many.
  const raw = http2.connect(`http://127.0.0.1:${echo.server.port}`);
  using _ = { [Symbol.dispose]: () => raw.destroy() };
  const streams = [0, 1, 2].map((index) => {
    const stream = raw.request({
      ":method": "POST",
      ":path": "/test.Echo/Unary",
      "content-type": "application/grpc",
      te: "trailers",
    });
    stream.on("response", (headers) => statuses.set(index, Number(headers["grpc-status"] ?? grpc.status.OK)));
    stream.on("error", () => {});
    stream.on("data", () => {});
    const prefix = Buffer.from([0, 0, 0x60, 0, 0]);
    stream.write(prefix);
    return stream;
  });
  for (const stream of streams.slice(0, 2)) await written(stream, 3 << 20);
  void written(streams[2]!, 3 << 20);
  await until(() => statuses.size === 1);
  expect([...statuses]).toEqual([[2, grpc.status.RESOURCE_EXHAUSTED]]);
  using client = connect(echo.server.port);
  expect((await client.call("/test.Echo/Unary", Buffer.alloc(60_000))).length).toBe(60_000);
  streams[1]!.close();
  streams[0]!.end(Buffer.alloc(3 << 20));
  await until(() => statuses.has(0));
  expect(statuses.get(0)).toBe(grpc.status.OK);
  expect((await client.call("/test.Echo/Unary", Buffer.alloc(7 << 20))).length).toBe(7 << 20);
});

test("connections opened and dropped in every state leave no descriptor and no call behind", async () => {
  using echo = startEcho();
  const recorded = await record(echo.server.port);
  const before = descriptors();
  for (let cut = 0; cut <= recorded.length; cut += 3) {
    const socket = net.connect(echo.server.port, "127.0.0.1");
    await new Promise((resolve) => socket.once("connect", resolve));
    socket.on("error", () => {});
    socket.write(recorded.subarray(0, cut), () => socket.destroy());
  }
  await until(() => echo.server.connections === 0);
  await until(() => descriptors() <= before);
  expect(echo.server.activeCalls).toBe(0);
  using client = connect(echo.server.port);
  expect((await client.call("/test.Echo/Unary", Buffer.alloc(5))).length).toBe(5);
});

/** What grpc-js sends for one call, taken down by a proxy. */
async function record(port: number): Promise<Buffer> {
  const sent: Buffer[] = [];
  const proxy = net.createServer((near) => {
    const far = net.connect(port, "127.0.0.1");
    near.on("data", (chunk) => {
      sent.push(Buffer.from(chunk));
      far.write(chunk);
    });
    far.on("data", (chunk) => near.write(chunk));
    near.on("close", () => far.destroy());
    near.on("error", () => {});
    far.on("error", () => {});
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  using client = connect((proxy.address() as net.AddressInfo).port);
  await client.call("/test.Echo/Unary", Buffer.alloc(100));
  proxy.close();
  return Buffer.concat(sent);
}

// Compressed requests and replies through real sockets: grpc-js where it can, hand-made messages where it won't.

import { expect, test } from "bun:test";
import http2 from "node:http2";
import { gunzipSync, gzipSync } from "node:zlib";
import * as grpc from "@grpc/grpc-js";
import type { StreamingMethod } from "../../src/net/grpc-server.ts";
import { connect, startEcho } from "../support/grpc-echo.ts";

const GZIP = { "grpc.default_compression_algorithm": grpc.compressionAlgorithms.gzip };
const COMPRESSES = { compressesReplies: true };
const SIZES = [0, 1, 1023, 1024, 65_536, 65_537, 602_112, 20 << 20];

/** Waits until `condition` holds, giving the event loop its turns. */
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}

/** Some of it compresses, some doesn't. */
function body(bytes: number): Buffer {
  const made = Buffer.alloc(bytes);
  for (let at = 0; at < bytes; at += 3) made[at] = (at * 2654435761) >>> 13;
  return made;
}

function message(bytes: Uint8Array, flag: number): Buffer {
  const head = Buffer.alloc(5);
  head[0] = flag;
  head.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

interface Answer {
  readonly status: string;
  readonly text: string;
  readonly headers: http2.IncomingHttpHeaders;
  readonly body: Buffer;
}

/** One request by hand; resolves with what came back. */
function ask(port: number, path: string, headers: Record<string, string>, request: Uint8Array): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const session = http2.connect(`http://127.0.0.1:${port}`);
    session.on("error", reject);
    const stream = session.request({
      ":method": "POST",
      ":path": path,
      "content-type": "application/grpc",
      ...headers,
    });
    let first: http2.IncomingHttpHeaders = {};
    let last: http2.IncomingHttpHeaders = {};
    const chunks: Buffer[] = [];
    stream.on("response", (received) => {
      first = received;
      last = received;
    });
    stream.on("trailers", (received) => {
      last = received;
    });
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("close", () => {
      session.destroy();
      const text = decodeURIComponent(String(last["grpc-message"] ?? ""));
      resolve({ status: String(last["grpc-status"]), text, headers: first, body: Buffer.concat(chunks) });
    });
    stream.end(request);
  });
}

const echoed: StreamingMethod = {
  kind: "streaming",
  open: (call) => ({
    message: (received) => call.sendMessage(received.chunks),
    halfClose: () => call.end("OK"),
  }),
};

test.each([false, true])(
  "gzip requests of any size come back unchanged; replies compressed: %p",
  async (compressed) => {
    using echo = startEcho({}, {}, { compressesReplies: compressed });
    using client = connect(echo.server.port, GZIP);
    const replies = await Promise.all(SIZES.map((size) => client.call("/test.Echo/Unary", body(size))));
    expect(replies.map((reply, index) => reply.equals(body(SIZES[index]!)))).toEqual(SIZES.map(() => true));
    expect(echo.server.activeCalls).toBe(0);
  },
  30_000,
);

test("messages of a stream keep their order, the large among the small, compressed or not", async () => {
  using echo = startEcho({ "/test.Echo/Each": echoed }, {}, COMPRESSES);
  using client = connect(echo.server.port, GZIP);
  const asIs = (bytes: Buffer) => bytes;
  const stream = client.client.makeBidiStreamRequest("/test.Echo/Each", asIs, asIs);
  const received: Buffer[] = [];
  stream.on("data", (bytes: Buffer) => received.push(bytes));
  const ended = new Promise((resolve) => stream.on("status", resolve));
  const sent = [1_000_000, 3, 0, 300_000, 5000, 2].map(body);
  for (const bytes of sent) stream.write(bytes);
  stream.end();
  expect(await ended).toMatchObject({ code: grpc.status.OK });
  expect(received.map(({ length }) => length)).toEqual(sent.map(({ length }) => length));
  expect(Buffer.concat(received).equals(Buffer.concat(sent))).toBe(true);
});

test("replies are compressed for who accepts it, from 1 KiB on", async () => {
  using echo = startEcho({}, {}, COMPRESSES);
  const { port } = echo.server;
  const zeros = (bytes: number) => message(Buffer.alloc(bytes), 0);
  const accepts = { "grpc-accept-encoding": "identity, gzip" };
  const large = await ask(port, "/test.Echo/Unary", accepts, zeros(4096));
  expect([large.status, large.headers["grpc-encoding"], large.body[0]]).toEqual(["0", "gzip", 1]);
  expect(gunzipSync(large.body.subarray(5)).equals(Buffer.alloc(4096))).toBe(true);
  const small = await ask(port, "/test.Echo/Unary", accepts, zeros(1023));
  expect(small.body.equals(zeros(1023))).toBe(true);
  const plain = await ask(port, "/test.Echo/Unary", {}, zeros(4096));
  expect([plain.headers["grpc-encoding"], plain.body.equals(zeros(4096))]).toEqual([undefined, true]);
});

test("statuses of what can't be inflated", async () => {
  using echo = startEcho({}, { messageReceiveBytesMax: 300_000 });
  const gzip = { "grpc-encoding": "gzip" };
  const call = async (headers: Record<string, string>, request: Uint8Array) => {
    const { status, text } = await ask(echo.server.port, "/test.Echo/Unary", headers, request);
    return `${status} ${text}`;
  };
  const { INTERNAL, OK, RESOURCE_EXHAUSTED, UNIMPLEMENTED } = grpc.status;
  const hello = message(gzipSync("hello"), 1);
  expect(await call(gzip, hello)).toBe(`${OK} `);
  expect(await call(gzip, message(Buffer.from("hello"), 0))).toBe(`${OK} `);
  const unexpected = `${INTERNAL} message with compressed flag 1, but grpc-encoding is identity`;
  expect(await call({}, hello)).toBe(unexpected);
  expect(await call({ "grpc-encoding": "identity" }, hello)).toBe(unexpected);
  expect(await call(gzip, message(gzipSync("hello"), 2))).toBe(
    `${INTERNAL} message with compressed flag 2: expected 0 or 1`,
  );
  const invalid = `${INTERNAL} request message is not valid gzip:`;
  expect(await call(gzip, message(Buffer.from("hello"), 1))).toStartWith(invalid);
  expect(await call(gzip, message(new Uint8Array(), 1))).toStartWith(invalid);
  expect(await call(gzip, message(gzipSync(body(200_000)).subarray(0, -1), 1))).toStartWith(invalid);
  for (const bytes of [300_001, 200 << 20]) {
    expect(await call(gzip, message(gzipSync(Buffer.alloc(bytes)), 1))).toBe(
      `${RESOURCE_EXHAUSTED} request message exceeds the limit of 300000 bytes when inflated`,
    );
  }
  const unknown = await ask(echo.server.port, "/test.Echo/Unary", { "grpc-encoding": "br" }, hello);
  expect([unknown.status, unknown.text]).toEqual([
    String(UNIMPLEMENTED),
    "grpc-encoding br is not supported; supported: identity,deflate,gzip",
  ]);
  expect(unknown.headers["grpc-accept-encoding"]).toBe("identity,deflate,gzip");
  expect(echo.defects).toEqual([]);
});

test("many bombs at once hold no more than the receive budget, and leave nothing behind", async () => {
  using echo = startEcho({}, { messageReceiveBytesMax: 64 << 20, receiveBytesMax: 64 << 20 });
  using client = connect(echo.server.port);
  const bomb = message(gzipSync(Buffer.alloc(128 << 20)), 1);
  const before = process.memoryUsage().rss;
  let peak = before;
  const timer = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().rss);
  }, 5);
  const answers = await Promise.all(
    Array.from({ length: 40 }, () => ask(echo.server.port, "/test.Echo/Unary", { "grpc-encoding": "gzip" }, bomb)),
  );
  clearInterval(timer);
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([String(grpc.status.RESOURCE_EXHAUSTED)]));
  expect(peak - before).toBeLessThan(512 << 20);
  expect((await client.call("/test.Echo/Unary", body(1000))).length).toBe(1000);
  expect(echo.server.activeCalls).toBe(0);
}, 30_000);

test("a call that ends while zlib works on it releases its reply once, and not before", async () => {
  let released = 0;
  const reply = body(64 << 20);
  using echo = startEcho(
    { "/test.Echo/Large": { kind: "unary", handle: () => ({ chunks: [reply], release: () => released++ }) } },
    {},
    COMPRESSES,
  );
  using client = connect(echo.server.port);
  const late = client.call("/test.Echo/Large", body(1), { deadline: Date.now() + 30 });
  await expect(late).rejects.toMatchObject({ code: grpc.status.DEADLINE_EXCEEDED });
  await until(() => released === 1);
  expect((await client.call("/test.Echo/Unary", body(2000))).equals(body(2000))).toBe(true);
  expect([released, echo.server.activeCalls]).toEqual([1, 0]);
}, 30_000);

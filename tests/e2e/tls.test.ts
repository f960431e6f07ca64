// The gRPC port over TLS: stock clients, wrong peers of every kind, and what remains of them.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import net from "node:net";
import { join } from "node:path";
import tls from "node:tls";
import * as grpc from "@grpc/grpc-js";
import { VirtualClock } from "../../src/base/clock.ts";
import { HANDSHAKE_NS_MAX, PEER_LOOK_NS } from "../../src/base/limits.ts";
import type { StreamingMethod } from "../../src/net/grpc-server.ts";
import { type Certificates, makeCertificates, noOpenssl } from "../support/certificates.ts";
import { connect, startEcho } from "../support/grpc-echo.ts";
import { findTool } from "../support/tools.ts";

if (noOpenssl) console.log(`TLS: skipped: ${noOpenssl}`);
const testTls = test.skipIf(noOpenssl !== undefined);
const grpcurl = findTool("grpcurl");
if ("missing" in grpcurl) console.log(`grpcurl: skipped: ${grpcurl.missing}`);

let files: Certificates;
beforeAll(() => {
  if (!noOpenssl) files = makeCertificates();
});
afterAll(() => files?.[Symbol.dispose]());

const serverTls = (clientCa?: string) => ({
  tls: { certificate: files.text("server.pem"), key: files.text("server.key"), clientCa },
});
/** A client that trusts the authority and shows the certificate of that name. */
function secured(port: number, name?: string) {
  const bytes = (file: string) => Buffer.from(files.text(file));
  const own = name === undefined ? [] : [bytes(`${name}.key`), bytes(`${name}.pem`)];
  const credentials = grpc.credentials.createSsl(bytes("ca.pem"), ...own);
  // An address is no name for SNI, which this client would make of it.
  return connect(port, { "grpc.ssl_target_name_override": "localhost" }, credentials);
}

const descriptors = () => readdirSync("/proc/self/fd").length;

/** Waits until `condition` holds, giving the event loop its turns. */
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}

const codeOf = (call: Promise<unknown>) =>
  call.then(
    () => grpc.status.OK,
    ({ code }: grpc.ServiceError) => code,
  );

/** What a peer is told until the connection is closed, however it is. */
function heard(socket: net.Socket): Promise<string> {
  return new Promise((resolve) => {
    let text = "";
    socket.on("data", (bytes) => {
      text += bytes.toString("latin1");
    });
    socket.on("error", (error) => {
      text += error.message;
    });
    socket.on("close", () => resolve(text));
  });
}

testTls(
  "payloads to 20 MB come back unchanged, alone and at once",
  async () => {
    using echo = startEcho({}, {}, serverTls());
    using client = secured(echo.server.port);
    const sizes = [0, 1, 64, 16_384, 65_536, 602_112, 20 << 20];
    const bodies = sizes.map((size) => Buffer.alloc(size, "a pattern of some length"));
    for (const sent of bodies) {
      const reply = await client.call("/test.Echo/Unary", sent);
      expect([sent.length, reply.equals(sent)]).toEqual([sent.length, true]);
    }
    const replies = await Promise.all(bodies.map((sent) => client.call("/test.Echo/Unary", sent)));
    expect(replies.map((reply, index) => reply.equals(bodies[index]!))).toEqual(bodies.map(() => true));
    const many = Array.from({ length: 500 }, (_, index) => client.call("/test.Echo/Unary", Buffer.alloc(index, index)));
    expect((await Promise.all(many)).map(({ length }) => length)).toEqual(many.map((_, index) => index));
  },
  30_000,
);

testTls("a client without a good certificate is refused where one is asked for", async () => {
  using echo = startEcho({}, {}, serverTls(files.text("ca.pem")));
  for (const [name, code] of [
    ["client", grpc.status.OK],
    [undefined, grpc.status.UNAVAILABLE],
    ["stranger", grpc.status.UNAVAILABLE],
  ] as const) {
    using client = secured(echo.server.port, name);
    expect([name, await codeOf(client.call("/test.Echo/Unary", Buffer.alloc(10)))]).toEqual([name, code]);
  }
  await until(() => echo.server.connections === 0);
});

testTls("a client that does not offer h2 is told so", async () => {
  using echo = startEcho({}, {}, serverTls());
  const offer = (protocols?: string[]) => {
    const { port } = echo.server;
    const options = protocols ? { ALPNProtocols: protocols } : {};
    return heard(tls.connect({ host: "127.0.0.1", port, ca: files.text("ca.pem"), ...options }));
  };
  expect(await offer(["http/1.1"])).toContain("NO_APPLICATION_PROTOCOL");
  const told = await offer();
  expect(told).toStartWith("HTTP/1.1 505 ");
  expect(told).toEndWith("this port serves gRPC over HTTP/2: offer h2 by ALPN\n");
  expect(echo.server.connections).toBe(0);
});

testTls("plain text to a TLS port, and TLS to a plain port, are closed", async () => {
  using secure = startEcho({}, {}, serverTls());
  using plain = startEcho();
  const preface = net.connect(secure.server.port, "127.0.0.1");
  const closed = heard(preface);
  preface.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  expect((await closed).charCodeAt(0)).toBe(21); // a TLS alert
  const hello = tls.connect({ host: "127.0.0.1", port: plain.server.port, ALPNProtocols: ["h2"] });
  await heard(hello);
  using client = connect(secure.server.port);
  expect(await codeOf(client.call("/test.Echo/Unary", Buffer.alloc(1)))).toBe(grpc.status.UNAVAILABLE);
  using other = secured(plain.server.port);
  expect(await codeOf(other.call("/test.Echo/Unary", Buffer.alloc(1)))).toBe(grpc.status.UNAVAILABLE);
  await until(() => secure.server.connections + plain.server.connections === 0);
});

testTls("a handshake that does not end is cut off, and holds the drain up no longer", async () => {
  const clock = new VirtualClock();
  using echo = startEcho({}, {}, { ...serverTls(), clock });
  const silent = net.connect(echo.server.port, "127.0.0.1");
  const closed = heard(silent);
  silent.write(Buffer.from("1603010200", "hex")); // the head of a ClientHello that never comes
  using client = secured(echo.server.port);
  await client.call("/test.Echo/Unary", Buffer.alloc(1)); // so the server has seen the other connection too
  clock.advance(HANDSHAKE_NS_MAX + 2 * PEER_LOOK_NS);
  await closed;
  const late = net.connect(echo.server.port, "127.0.0.1");
  const dropped = heard(late);
  await client.call("/test.Echo/Unary", Buffer.alloc(1));
  client.client.close();
  await until(() => echo.server.connections === 0);
  await echo.server.drain(1e9);
  await dropped;
});

testTls("a client that was refused and does not close is cut off", async () => {
  const clock = new VirtualClock();
  using echo = startEcho({}, {}, { ...serverTls(), clock });
  const { port } = echo.server;
  const address = `127.0.0.1:${port}`;
  const client = Bun.spawn(["openssl", "s_client", "-connect", address, "-quiet"], {
    stdio: ["pipe", "pipe", "ignore"],
  });
  const reader = client.stdout.getReader();
  expect(Buffer.from((await reader.read()).value!).toString()).toStartWith("HTTP/1.1 505 ");
  client.kill("SIGSTOP"); // it holds its end open, and can't answer
  const open = descriptors();
  clock.advance(HANDSHAKE_NS_MAX + 2 * PEER_LOOK_NS);
  await until(() => descriptors() < open);
  client.kill("SIGKILL");
  await client.exited;
});

testTls(
  "a drain lets calls finish, and nothing is left open",
  async () => {
    const before = descriptors();
    const answers: (() => void)[] = [];
    const wait: StreamingMethod = {
      kind: "streaming",
      open: (call) => ({
        message: (message) => answers.push(() => call.sendOnly(message.chunks)),
        halfClose: () => {},
      }),
    };
    {
      using echo = startEcho({ "/test.Echo/Wait": wait }, {}, serverTls());
      using client = secured(echo.server.port);
      const sent = Buffer.alloc(4 << 20, 7);
      const reply = client.call("/test.Echo/Wait", sent);
      await until(() => answers.length === 1);
      const drained = echo.server.drain(60e9);
      answers[0]!();
      expect((await reply).equals(sent)).toBe(true);
      await drained;
      expect([echo.server.connections, echo.server.activeCalls]).toEqual([0, 0]);
    }
    await until(() => descriptors() <= before);
  },
  30_000,
);

testTls(
  "connections opened and dropped in every state leave nothing behind",
  async () => {
    using echo = startEcho({}, {}, serverTls());
    const before = descriptors();
    const { port } = echo.server;
    for (let round = 0; round < 100; round++) {
      const socket =
        round % 2 === 0
          ? net.connect(port, "127.0.0.1")
          : tls.connect({ host: "127.0.0.1", port, ca: files.text("ca.pem"), ALPNProtocols: ["h2"] });
      socket.on("error", () => {});
      await new Promise((resolve) => socket.once(round % 4 === 1 ? "secureConnect" : "connect", resolve));
      const closed = new Promise((resolve) => socket.once("close", resolve));
      socket.destroy();
      await closed;
    }
    using client = secured(port);
    expect((await client.call("/test.Echo/Unary", Buffer.alloc(10))).length).toBe(10);
    client.client.close();
    await until(() => echo.server.connections === 0 && descriptors() <= before);
  },
  30_000,
);

test.skipIf(noOpenssl !== undefined || "missing" in grpcurl)("grpcurl over TLS", async () => {
  if ("missing" in grpcurl) return;
  using echo = startEcho(
    { "/inference.GRPCInferenceService/ServerLive": { kind: "unary", handle: () => ({ chunks: [Buffer.of(8, 1)] }) } },
    {},
    serverTls(files.text("ca.pem")),
  );
  const protos = ["-import-path", join(import.meta.dir, "../../proto"), "-proto", "grpc_service.proto"];
  const keys = ["-cacert", files.path("ca.pem"), "-cert", files.path("client.pem"), "-key", files.path("client.key")];
  const address = `localhost:${echo.server.port}`;
  const method = "inference.GRPCInferenceService/ServerLive";
  const child = Bun.spawn([grpcurl.path, ...keys, ...protos, address, method], { stdout: "pipe", stderr: "pipe" });
  const [output, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  expect(errors).toBe("");
  expect(JSON.parse(output)).toEqual({ live: true });
});

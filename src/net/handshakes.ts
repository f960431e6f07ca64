// TLS of the gRPC port: the settings of its sockets, and the connections whose handshake is under way.
//
// A socket becomes a connection once its peer has agreed on HTTP/2 (ALPN h2) and, where client certificates are asked
// for, has shown a good one. Invariant: who does not get there within HANDSHAKE_NS_MAX is cut off. Used by
// `grpc-server.ts`.

import type { Socket, TLSOptions } from "bun";
import type { Clock } from "../base/clock.ts";
import { HANDSHAKE_NS_MAX } from "../base/limits.ts";

/** In PEM. */
export interface Tls {
  /** The server's certificate, then those that lead to its root. */
  readonly certificate: string;
  readonly key: string;
  /** Clients must show a certificate that one of these signed; undefined: they need none. */
  readonly clientCa: string | undefined;
}

/** "h2" as ALPN writes it: its length, then its letters. Bun takes no other form. */
const ALPN_H2 = Uint8Array.of(2, 0x68, 0x32);

/** What Bun.listen takes. A client that offers protocols without h2 gets the alert no_application_protocol. */
export function tlsOptions({ certificate, key, clientCa }: Tls): TLSOptions {
  const base: TLSOptions = { cert: certificate, key, ALPNProtocols: ALPN_H2 };
  return clientCa === undefined ? base : { ...base, ca: clientCa, requestCert: true, rejectUnauthorized: true };
}

/** In plain text within TLS, for a client that offered no protocol at all. */
const REFUSAL = new TextEncoder().encode(
  "HTTP/1.1 505 HTTP Version Not Supported\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n" +
    "this port serves gRPC over HTTP/2: offer h2 by ALPN\n",
);

export class Handshakes<Data> {
  private readonly sinceNs = new Map<Socket<Data>, number>();

  constructor(
    private readonly asksForCertificate: boolean,
    private readonly clock: Clock,
  ) {}

  /** How many are under way. */
  get size(): number {
    return this.sinceNs.size;
  }

  begin(socket: Socket<Data>): void {
    this.sinceNs.set(socket, this.clock.nowNs());
  }

  /**
   * A handshake has ended. Returns whether the socket speaks HTTP/2 with a peer that may; else it is closed, and waited
   * for until it is.
   */
  end(socket: Socket<Data>, success: boolean, fault: Error | null): boolean {
    if (!this.sinceNs.has(socket)) return false;
    if (!success || (this.asksForCertificate && fault !== null)) socket.terminate();
    else if (socket.alpnProtocol === "h2") return this.sinceNs.delete(socket);
    else {
      socket.write(REFUSAL);
      // Not end(): after it Bun's TLS sockets wait for their peer for ever, whatever is called (seen on 1.4.5).
      socket.shutdown();
    }
    return false;
  }

  /** The socket is gone. */
  forget(socket: Socket<Data>): void {
    this.sinceNs.delete(socket);
  }

  /** To be called every PEER_LOOK_NS. */
  look(): void {
    const nowNs = this.clock.nowNs();
    for (const [socket, sinceNs] of [...this.sinceNs]) if (nowNs - sinceNs >= HANDSHAKE_NS_MAX) socket.terminate();
  }

  /** Cuts all off. */
  stop(): void {
    for (const socket of [...this.sinceNs.keys()]) socket.terminate();
    this.sinceNs.clear();
  }
}

// The headers of gRPC over HTTP/2: blocks that are sent, and the fields of a request that gRPC gives a meaning.
//
// Source: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md. Invariant: blocks that are always the same are
// encoded once. Used by `rpc.ts` and `grpc-server.ts`.

import { NS_PER_MS, NS_PER_S, NS_PER_US } from "../base/clock.ts";
import { STATUS_CODES, type StatusCode } from "../base/errors.ts";
import { STATUS_MESSAGE_BYTES_MAX } from "../base/limits.ts";
import { encodeHeaderBlock } from "./hpack-encoder.ts";

type Field = readonly [name: string, value: string];

const RESPONSE: readonly Field[] = [
  [":status", "200"],
  ["content-type", "application/grpc"],
];

/** The headers of every response that has a body. */
export const RESPONSE_HEADERS = encodeHeaderBlock(RESPONSE);

/** The same, where messages may be compressed. */
export const RESPONSE_HEADERS_GZIP = encodeHeaderBlock([...RESPONSE, ["grpc-encoding", "gzip"]]);

/** The trailers of a success that sets no metadata. */
export const TRAILERS_OK = encodeHeaderBlock([["grpc-status", "0"]]);

/** A response in plain HTTP to a request that is not gRPC. */
export interface Refusal {
  readonly headers: Uint8Array;
  readonly body: Uint8Array;
}

export const METHOD_NOT_ALLOWED = refusal("405", ["allow", "POST"]);
export const UNSUPPORTED_MEDIA_TYPE = refusal("415", ["accept", "application/grpc"]);

function refusal(status: string, field: Field): Refusal {
  const headers = encodeHeaderBlock([[":status", status], ["content-type", "text/plain"], field]);
  return {
    headers,
    body: new TextEncoder().encode("this port serves gRPC: POST with content-type application/grpc\n"),
  };
}

export interface Status {
  readonly code: StatusCode;
  readonly message: string;
}

/** Trailers that follow a body. */
export function trailers(status: Status, metadata: readonly Field[]): Uint8Array {
  return encodeHeaderBlock([...statusFields(status), ...metadata]);
}

/** A response without a body: headers and trailers in one block. */
export function trailersOnly(status: Status, metadata: readonly Field[]): Uint8Array {
  return encodeHeaderBlock([...RESPONSE, ...statusFields(status), ...metadata]);
}

function statusFields({ code, message }: Status): Field[] {
  const fields: Field[] = [["grpc-status", String(STATUS_CODES[code])]];
  if (message !== "") fields.push(["grpc-message", percentEncode(message)]);
  return fields;
}

const HEX = "0123456789ABCDEF";

/** A status message as it travels: UTF-8, all but printable ASCII percent-encoded, cut at STATUS_MESSAGE_BYTES_MAX. */
export function percentEncode(message: string): string {
  let encoded = "";
  for (const character of message) {
    const code = character.codePointAt(0)!;
    let piece = character;
    if (code < 0x20 || code > 0x7e || character === "%") {
      piece = "";
      for (const byte of Buffer.from(character)) piece += `%${HEX[byte >> 4]}${HEX[byte & 15]}`;
    }
    if (encoded.length + piece.length > STATUS_MESSAGE_BYTES_MAX) break;
    encoded += piece;
  }
  return encoded;
}

const TIMEOUT_UNITS_NS: Record<string, number> = {
  H: 3600 * NS_PER_S,
  M: 60 * NS_PER_S,
  S: NS_PER_S,
  m: NS_PER_MS,
  u: NS_PER_US,
  n: 1,
};

/** `grpc-timeout` in nanoseconds; undefined when it is not 1 to 8 digits and a unit. */
export function parseTimeoutNs(text: string): number | undefined {
  const match = /^(\d{1,8})([HMSmun])$/.exec(text);
  return match ? Number(match[1]) * TIMEOUT_UNITS_NS[match[2]!]! : undefined;
}

/** Whether a content-type is gRPC with messages that we take: application/grpc, +proto, or with parameters. */
export function isGrpcContentType(value: string | undefined): boolean {
  return value !== undefined && /^application\/grpc(\+proto)?(\s*;.*)?$/i.test(value);
}

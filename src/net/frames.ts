// The frame layer of HTTP/2 (RFC 9113, sections 4, 6 and 7): numbers, and writers of frame headers.
//
// Invariant: no state. Used by the reader, the output and the connection.

export const FRAME_HEADER_BYTES = 9;

export const FRAME = {
  DATA: 0,
  HEADERS: 1,
  PRIORITY: 2,
  RST_STREAM: 3,
  SETTINGS: 4,
  PUSH_PROMISE: 5,
  PING: 6,
  GOAWAY: 7,
  WINDOW_UPDATE: 8,
  CONTINUATION: 9,
} as const;

export const FLAG = { END_STREAM: 0x1, ACK: 0x1, END_HEADERS: 0x4, PADDED: 0x8, PRIORITY: 0x20 } as const;

export const SETTING = {
  HEADER_TABLE_SIZE: 1,
  ENABLE_PUSH: 2,
  MAX_CONCURRENT_STREAMS: 3,
  INITIAL_WINDOW_SIZE: 4,
  MAX_FRAME_SIZE: 5,
  MAX_HEADER_LIST_SIZE: 6,
} as const;

export const H2_ERROR = {
  NO_ERROR: 0,
  PROTOCOL_ERROR: 1,
  INTERNAL_ERROR: 2,
  FLOW_CONTROL_ERROR: 3,
  STREAM_CLOSED: 5,
  FRAME_SIZE_ERROR: 6,
  REFUSED_STREAM: 7,
  CANCEL: 8,
  COMPRESSION_ERROR: 9,
  ENHANCE_YOUR_CALM: 11,
} as const;

export type H2ErrorCode = (typeof H2_ERROR)[keyof typeof H2_ERROR];

/** The peer broke the protocol in a way that ends the connection: GOAWAY with `code`, then close. */
export class ConnectionError extends Error {
  constructor(
    readonly code: H2ErrorCode,
    message: string,
  ) {
    super(message);
  }
}

export const DEFAULT_WINDOW_BYTES = 65_535;
export const DEFAULT_FRAME_BYTES = 16_384;
export const WINDOW_BYTES_MAX = 2 ** 31 - 1;
export const STREAM_ID_MAX = 2 ** 31 - 1;
export const HEADER_TABLE_BYTES = 4096;

/** What a client sends first (section 3.4). */
export const PREFACE = new TextEncoder().encode("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

/** Writes a frame header at `at`; returns the offset behind it. */
export function writeFrameHeader(
  target: Uint8Array,
  at: number,
  payloadBytes: number,
  type: number,
  flags: number,
  streamId: number,
): number {
  target[at] = payloadBytes >>> 16;
  target[at + 1] = payloadBytes >>> 8;
  target[at + 2] = payloadBytes;
  target[at + 3] = type;
  target[at + 4] = flags;
  return writeUint32(target, at + 5, streamId);
}

export function writeUint32(target: Uint8Array, at: number, value: number): number {
  target[at] = value >>> 24;
  target[at + 1] = value >>> 16;
  target[at + 2] = value >>> 8;
  target[at + 3] = value;
  return at + 4;
}

export function readUint32(bytes: Uint8Array, at: number): number {
  return ((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!) >>> 0;
}

// Bytes from a socket, cut anywhere, to frames.
//
// DATA is handed on piece by piece as it arrives, as views of the received chunks, so that a large frame is never
// gathered; every other frame is handed on whole. Invariant: what is gathered is bounded by `controlBytesMax`. Used by
// `http2-connection.ts`; the frame's meaning is judged there.

import { ConnectionError, FLAG, FRAME, FRAME_HEADER_BYTES, H2_ERROR, PREFACE, readUint32 } from "./frames.ts";

export interface FrameHandler {
  /** A DATA frame begins; `payloadBytes` counts its padding too. */
  dataFrame(streamId: number, flags: number, payloadBytes: number): void;
  /** `bytes[start, end)` of the current DATA frame, padding left out; `last` ends the frame and may come empty. */
  dataPiece(streamId: number, bytes: Uint8Array, start: number, end: number, last: boolean, endStream: boolean): void;
  /** Any other frame, its payload `bytes[start, end)`: valid during the call only. */
  frame(type: number, flags: number, streamId: number, bytes: Uint8Array, start: number, end: number): void;
}

export class FrameReader {
  private prefaceRead: number;
  // A frame header that was cut, and a control frame's payload that was cut.
  private readonly header = new Uint8Array(FRAME_HEADER_BYTES);
  private headerRead = 0;
  private gathered: Uint8Array | undefined;
  private gatheredBytes = 0;
  // The frame under way.
  private type = 0;
  private flags = 0;
  private streamId = 0;
  private inFrame = false;
  private remaining = 0; // DATA: payload bytes still to come, padding left out; others: payload bytes
  private padding = 0; // DATA: padding bytes still to come
  private padLengthDue = false;

  /**
   * @param expectPreface the peer is a client
   * @param frameBytesMax the SETTINGS_MAX_FRAME_SIZE that we sent
   * @param controlBytesMax bound of a frame that has to be gathered, any but DATA
   */
  constructor(
    private readonly handler: FrameHandler,
    expectPreface: boolean,
    private readonly frameBytesMax: number,
    private readonly controlBytesMax: number,
  ) {
    this.prefaceRead = expectPreface ? 0 : PREFACE.length;
  }

  /** Takes the next bytes; calls the handler for what they complete. Throws ConnectionError. */
  read(bytes: Uint8Array): void {
    const end = bytes.length;
    let at = this.prefaceRead < PREFACE.length ? this.readPreface(bytes) : 0;
    while (at < end || (this.inFrame && this.remaining + this.padding === 0 && !this.padLengthDue)) {
      if (!this.inFrame) at = this.readHeader(bytes, at, end);
      else if (this.type === FRAME.DATA) at = this.readData(bytes, at, end);
      else at = this.readWhole(bytes, at, end);
    }
  }

  private readPreface(bytes: Uint8Array): number {
    let at = 0;
    while (at < bytes.length && this.prefaceRead < PREFACE.length) {
      if (bytes[at++] !== PREFACE[this.prefaceRead++]) {
        throw new ConnectionError(H2_ERROR.PROTOCOL_ERROR, "not an HTTP/2 connection preface");
      }
    }
    return at;
  }

  private readHeader(bytes: Uint8Array, at: number, end: number): number {
    if (this.headerRead === 0 && end - at >= FRAME_HEADER_BYTES) {
      this.begin(bytes, at);
      return at + FRAME_HEADER_BYTES;
    }
    while (at < end && this.headerRead < FRAME_HEADER_BYTES) this.header[this.headerRead++] = bytes[at++]!;
    if (this.headerRead === FRAME_HEADER_BYTES) {
      this.headerRead = 0;
      this.begin(this.header, 0);
    }
    return at;
  }

  private begin(bytes: Uint8Array, at: number): void {
    const payloadBytes = (bytes[at]! << 16) | (bytes[at + 1]! << 8) | bytes[at + 2]!;
    this.type = bytes[at + 3]!;
    this.flags = bytes[at + 4]!;
    this.streamId = readUint32(bytes, at + 5) & 0x7fffffff;
    if (payloadBytes > this.frameBytesMax) {
      throw new ConnectionError(H2_ERROR.FRAME_SIZE_ERROR, `frame of ${payloadBytes} bytes`);
    }
    this.inFrame = true;
    this.remaining = payloadBytes;
    this.padding = 0;
    if (this.type === FRAME.DATA) {
      this.padLengthDue = (this.flags & FLAG.PADDED) !== 0;
      if (this.padLengthDue && payloadBytes === 0) {
        throw new ConnectionError(H2_ERROR.FRAME_SIZE_ERROR, "padded DATA frame without a pad length");
      }
      this.handler.dataFrame(this.streamId, this.flags, payloadBytes);
    } else if (payloadBytes > this.controlBytesMax) {
      throw new ConnectionError(H2_ERROR.FRAME_SIZE_ERROR, `frame of type ${this.type} with ${payloadBytes} bytes`);
    }
  }

  private readData(bytes: Uint8Array, at: number, end: number): number {
    if (this.padLengthDue) {
      this.padLengthDue = false;
      this.padding = bytes[at++]!;
      this.remaining -= 1 + this.padding;
      if (this.remaining < 0) throw new ConnectionError(H2_ERROR.PROTOCOL_ERROR, "padding exceeds the DATA frame");
    }
    const take = Math.min(this.remaining, end - at);
    this.remaining -= take;
    const skip = Math.min(this.padding, end - at - take);
    this.padding -= skip;
    const last = this.remaining === 0 && this.padding === 0;
    if (last) this.inFrame = false;
    if (take > 0 || last) {
      const endStream = last && (this.flags & FLAG.END_STREAM) !== 0;
      this.handler.dataPiece(this.streamId, bytes, at, at + take, last, endStream);
    }
    return at + take + skip;
  }

  private readWhole(bytes: Uint8Array, at: number, end: number): number {
    const payloadBytes = this.remaining;
    if (this.gathered === undefined && end - at >= payloadBytes) {
      this.inFrame = false;
      this.handler.frame(this.type, this.flags, this.streamId, bytes, at, at + payloadBytes);
      return at + payloadBytes;
    }
    this.gathered ??= new Uint8Array(payloadBytes);
    const take = Math.min(payloadBytes, end - at);
    this.gathered.set(bytes.subarray(at, at + take), this.gatheredBytes);
    this.gatheredBytes += take;
    this.remaining -= take;
    if (this.remaining === 0) {
      const whole = this.gathered;
      this.gathered = undefined;
      this.gatheredBytes = 0;
      this.inFrame = false;
      this.handler.frame(this.type, this.flags, this.streamId, whole, 0, whole.length);
    }
    return at + take;
  }
}

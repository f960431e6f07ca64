// One SETTINGS frame of the peer, folded to what it comes to (RFC 9113, section 6.5).
//
// A frame may name a setting thousands of times, and a new initial window touches every open stream: so the streams are
// walked once a frame, not once an entry. Invariant: entries are checked one by one, in order, as if each were applied.
// Used by `http2-connection.ts`.

import {
  ConnectionError,
  DEFAULT_FRAME_BYTES,
  H2_ERROR,
  HEADER_TABLE_BYTES,
  readUint32,
  SETTING,
  WINDOW_BYTES_MAX,
} from "./frames.ts";

/** What a SETTINGS frame changes; undefined where it says nothing. */
export interface PeerSettings {
  frameBytesMax: number | undefined;
  windowBytes: number | undefined;
  /** The largest initial window on the way: no stream's window may overflow by it. */
  windowPeakBytes: number;
  /** The header table was lowered, if only on the way: the next header block must say so (RFC 7541, section 4.2). */
  tableLowered: boolean;
}

/** Entries of a SETTINGS frame of `byteLength` bytes. Throws ConnectionError. */
export function settingsCount(byteLength: number): number {
  if (byteLength % 6 !== 0) throw new ConnectionError(H2_ERROR.FRAME_SIZE_ERROR, "SETTINGS of an odd length");
  return byteLength / 6;
}

/** Reads the entries in `bytes[start, end)`. Throws ConnectionError for a value outside its range. */
export function foldSettings(bytes: Uint8Array, start: number, end: number): PeerSettings {
  const folded: PeerSettings = {
    frameBytesMax: undefined,
    windowBytes: undefined,
    windowPeakBytes: 0,
    tableLowered: false,
  };
  for (let at = start; at < end; at += 6) {
    const id = (bytes[at]! << 8) | bytes[at + 1]!;
    const value = readUint32(bytes, at + 2);
    if (id === SETTING.HEADER_TABLE_SIZE) {
      folded.tableLowered ||= value < HEADER_TABLE_BYTES;
    } else if (id === SETTING.ENABLE_PUSH) {
      if (value > 1) throw new ConnectionError(H2_ERROR.PROTOCOL_ERROR, `ENABLE_PUSH ${value}`);
    } else if (id === SETTING.MAX_FRAME_SIZE) {
      if (value < DEFAULT_FRAME_BYTES || value >= 2 ** 24) {
        throw new ConnectionError(H2_ERROR.PROTOCOL_ERROR, `MAX_FRAME_SIZE ${value}`);
      }
      folded.frameBytesMax = value;
    } else if (id === SETTING.INITIAL_WINDOW_SIZE) {
      if (value > WINDOW_BYTES_MAX) throw new ConnectionError(H2_ERROR.FLOW_CONTROL_ERROR, `window of ${value} bytes`);
      folded.windowBytes = value;
      folded.windowPeakBytes = Math.max(folded.windowPeakBytes, value);
    }
  }
  return folded;
}

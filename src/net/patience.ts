// How long a connection waits for what its peer has to do next, and for the rest of a request.
//
// Time is kept by looks, not by events, so that a request costs nothing. Invariant: whoever opens a stream between two
// looks starts the wait anew. One a connection; called by `http2-connection.ts`.

import {
  CONNECTION_IDLE_NS_MAX,
  FIRST_REQUEST_NS_MAX,
  HEADER_BLOCK_NS_MAX,
  RECEIVE_PROGRESS_BYTES,
  RECEIVE_PROGRESS_NS,
} from "../base/limits.ts";
import type { Http2Stream } from "./http2-stream.ts";
import { Progress } from "./progress.ts";

const WAIT_NS_MAX = {
  settings: FIRST_REQUEST_NS_MAX,
  "first request": FIRST_REQUEST_NS_MAX,
  "header block": HEADER_BLOCK_NS_MAX,
  request: CONNECTION_IDLE_NS_MAX,
} as const;

/** What a peer can be waited for: its preface and SETTINGS, a stream, or the rest of a header block. */
export type Awaited = keyof typeof WAIT_NS_MAX;

export class Patience {
  private awaited: Awaited | undefined;
  private lastStreamId = 0;
  private sinceNs = 0;

  constructor(private readonly lose: (awaited: Awaited) => void) {}

  /** @param awaited undefined when nothing is */
  look(awaited: Awaited | undefined, lastStreamId: number, nowNs: number): void {
    if (awaited !== this.awaited || lastStreamId !== this.lastStreamId) {
      this.awaited = awaited;
      this.lastStreamId = lastStreamId;
      this.sinceNs = nowNs;
    } else if (awaited !== undefined && nowNs - this.sinceNs >= WAIT_NS_MAX[awaited]) this.lose(awaited);
  }
}

/** Gives up the streams whose request is not complete and made no progress for RECEIVE_PROGRESS_NS. */
export function lookAtRequests(streams: Iterable<Http2Stream>, nowNs: number): void {
  for (const stream of streams) {
    if (stream.remoteClosed || stream.localClosed || stream.mayPause) continue;
    stream.progress ??= new Progress(stream.receivedBytes, nowNs);
    const stalledNs = stream.progress.stalledNs(stream.receivedBytes, RECEIVE_PROGRESS_BYTES, nowNs);
    if (stalledNs >= RECEIVE_PROGRESS_NS) stream.receiver?.givenUp("stalled");
  }
}

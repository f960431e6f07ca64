// The second half of a run: awaits what launcher.ts issued, in order, destroys it, and says what it cost.
//
// Every event of a flight is awaited, also after a failure, because the slab goes back to its pool afterwards and nobody
// may write to it any more. Times are this thread's own: two threads share no clock.
// Used by complete.thread.ts and, inline, by run-port.ts.

import { type Address, liveHandles } from "../../ffi/memory.ts";
import { PjrtApi } from "../../ffi/pjrt/api.ts";
import { PjrtBuffer } from "../../ffi/pjrt/buffer.ts";
import { PjrtEvent } from "../../ffi/pjrt/event.ts";
import { systemClock } from "../base/clock.ts";
import type { RunTiming } from "./device.ts";
import type { Flight } from "./launcher.ts";

export class Completer {
  private readonly api: PjrtApi;
  private previousDoneNs = 0;

  constructor(apiAddress: Address) {
    this.api = PjrtApi.at(apiAddress);
  }

  /** Blocks until the results lie in the slab. Throws the first error that any of the flight's events carries. */
  complete(flight: Flight): RunTiming {
    const receivedNs = systemClock.nowNs();
    const failures: unknown[] = [];
    let at = 2;
    const awaitList = () => {
      const end = at + 1 + flight[at]!;
      for (at++; at < end; at++) this.settle(flight[at]! as Address, failures);
    };

    // The device starts a run when its inputs are there and the run before it is done.
    const uploadsReady = this.areReady(flight, at);
    awaitList();
    const uploadedNs = uploadsReady ? receivedNs : systemClock.nowNs();
    awaitList();
    const doneNs = systemClock.nowNs();
    awaitList();
    const downloadedNs = systemClock.nowNs();
    const end = at + 1 + flight[at]!;
    for (at++; at < end; at++) PjrtBuffer.adopt(this.api, flight[at]! as Address)[Symbol.dispose]();

    const startedNs = Math.max(uploadedNs, this.previousDoneNs);
    this.previousDoneNs = doneNs;
    if (failures.length > 0) throw failures[0];
    return {
      uploadNs: flight[0]! + (uploadedNs - receivedNs),
      // The CPU plugin runs small programs inside the call that launches them, so that call is part of the cost.
      executeNs: flight[1]! + Math.max(doneNs - startedNs, 0),
      downloadNs: downloadedNs - doneNs,
    };
  }

  /** Returns what this thread still holds, by noun. */
  close(): Record<string, number> {
    return liveHandles();
  }

  private areReady(flight: Flight, listAt: number): boolean {
    const end = listAt + 1 + flight[listAt]!;
    for (let at = listAt + 1; at < end; at++) {
      if (!PjrtEvent.borrow(this.api, flight[at]! as Address).isReady()) return false;
    }
    return true;
  }

  private settle(address: Address, failures: unknown[]): void {
    using event = PjrtEvent.adopt(this.api, address);
    try {
      event.await();
    } catch (thrown) {
      failures.push(thrown);
    }
  }
}

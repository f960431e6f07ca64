// What every PJRT object of ours is: a native handle that this thread owns, or borrows from the one that does.
//
// Handles are process-wide. An owner destroys its handle when disposed and is counted (memory.ts: liveHandles); `release`
// gives the handle up, so that another thread may adopt it. A borrowed one is neither counted nor destroyed: whoever
// borrows must end before the owner disposes. Base class of client, executable, buffer, event and transfer.

import { assert } from "../../src/base/errors.ts";
import { type Address, type HandleCounter, NULL } from "../memory.ts";
import type { PjrtApi } from "./api.ts";

/** Whether a wrapper destroys what it wraps. */
export type Ownership = "owned" | "borrowed";

export abstract class PjrtHandle implements Disposable {
  private handle: Address;

  constructor(
    readonly api: PjrtApi,
    handle: Address,
    private readonly ownership: Ownership,
    private readonly counter: HandleCounter,
  ) {
    if (handle === NULL) throw new Error(`invariant broken: PJRT gave a null ${counter.noun}`);
    this.handle = handle;
    if (ownership === "owned") counter.live++;
  }

  /** The native handle, for calls and for another thread's `borrow` or `adopt`. */
  get address(): Address {
    if (this.handle === NULL) throw new Error(`invariant broken: PJRT ${this.counter.noun} is used after its end`);
    return this.handle;
  }

  /** Gives the handle up without destroying it and returns it, for `adopt` in any thread. */
  release(): Address {
    assert(this.ownership === "owned", `a borrowed PJRT ${this.counter.noun} is not ours to give away`);
    const handle = this.address;
    this.handle = NULL;
    this.counter.live--;
    return handle;
  }

  /** Destroys the handle if it is ours. Disposing twice does nothing. */
  [Symbol.dispose](): void {
    const handle = this.handle;
    if (handle === NULL) return;
    this.handle = NULL;
    if (this.ownership === "borrowed") return;
    this.counter.live--;
    this.destroy(handle);
  }

  protected abstract destroy(handle: Address): void;
}

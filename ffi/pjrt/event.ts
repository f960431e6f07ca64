// A PJRT event: await it (blocking), poll it, or be called back when it is ready.
//
// An event that carries an error throws it from `await` and rejects `ready`. Awaiting blocks the calling thread and is for
// device threads; `ready` is for threads that must go on, at the price of a wake-up from a foreign thread (0.1 ms).
// Made by buffers, executions and transfers.

import { JSCallback, type Pointer } from "bun:ffi";
import { type Address, handleCounter, NULL } from "../memory.ts";
import type { PjrtApi } from "./api.ts";
import { type Ownership, PjrtHandle } from "./handle.ts";

const events = handleCounter("event");

export class PjrtEvent extends PjrtHandle {
  private constructor(api: PjrtApi, handle: Address, ownership: Ownership) {
    super(api, handle, ownership, events);
  }

  /** Takes over an event that PJRT gave, or that another thread released. */
  static adopt(api: PjrtApi, handle: Address): PjrtEvent {
    return new PjrtEvent(api, handle, "owned");
  }

  /** Uses an event that is owned elsewhere. */
  static borrow(api: PjrtApi, handle: Address): PjrtEvent {
    return new PjrtEvent(api, handle, "borrowed");
  }

  /** Whether the event is ready, with or without an error. */
  isReady(): boolean {
    const call = this.api.calls.PJRT_Event_IsReady;
    call.args.event = this.address;
    call.run();
    return call.args.is_ready;
  }

  /** Blocks this thread until the event is ready. Throws the PjrtError that the event carries. */
  await(): void {
    const call = this.api.calls.PJRT_Event_Await;
    call.args.event = this.address;
    call.run();
  }

  /** Settles when the event is ready, without blocking this thread. The event may be disposed before that. */
  ready(): Promise<void> {
    return new Promise((resolve, reject) => {
      const listener = listenerOf(this.api);
      const call = this.api.calls.PJRT_Event_OnReady;
      call.args.event = this.address;
      call.args.callback = listener.address;
      call.args.user_arg = listener.add(resolve, reject);
      call.run();
    });
  }

  protected override destroy(handle: Address): void {
    const call = this.api.calls.PJRT_Event_Destroy;
    call.args.event = handle;
    call.run();
  }
}

/** The callback of one API in one thread. PJRT threads call it; Bun runs it on the thread that made it. */
class ReadyListener {
  private readonly waiting = new Map<number, { resolve: () => void; reject: (error: unknown) => void }>();
  private sequence = 0;
  private readonly callback: JSCallback;

  constructor(api: PjrtApi) {
    this.callback = new JSCallback(
      (error: Pointer | null, ticket: Pointer) => {
        const { resolve, reject } = this.waiting.get(ticket as number)!;
        this.waiting.delete(ticket as number);
        // PJRT passes the ownership of the error to the callback; takeError destroys it.
        if (error) reject(api.takeError(error as number as Address, "PJRT_Event_OnReady"));
        else resolve();
      },
      { args: ["ptr", "ptr"], returns: "void", threadsafe: true },
    );
  }

  get address(): Address {
    return (this.callback.ptr ?? NULL) as number as Address;
  }

  /** Registers a waiter and gives the user_arg that stands for it: a number, never dereferenced. */
  add(resolve: () => void, reject: (error: unknown) => void): Address {
    const ticket = ++this.sequence;
    this.waiting.set(ticket, { resolve, reject });
    return ticket as Address;
  }
}

const listeners = new WeakMap<PjrtApi, ReadyListener>();

// One callback a thread and API, never closed: PJRT may call it as long as an event is pending.
function listenerOf(api: PjrtApi): ReadyListener {
  const existing = listeners.get(api);
  if (existing) return existing;
  const created = new ReadyListener(api);
  listeners.set(api, created);
  return created;
}

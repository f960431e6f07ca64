// The one door to time. Production reads the machine's clocks; a simulation hands out a VirtualClock and turns it.
//
// Monotonic times are nanoseconds as a number, exact up to 2^53 (104 days of uptime); wall time is for humans and the
// wire only. Units stand last in every name. Used by every room that waits, measures or expires.

/** A timer that can be called off; calling it off twice, or late, does nothing. */
export interface Timer {
  cancel(): void;
}

export interface Clock {
  /** Monotonic nanoseconds since an arbitrary origin. */
  nowNs(): number;
  /** Unix milliseconds. */
  wallMs(): number;
  /** Calls `action` once, not before `delayNs` from now have passed. Never keeps the process alive by itself. */
  after(delayNs: number, action: () => void): Timer;
  /** Calls `action` once the events already at hand have been taken in: the end of this turn of the event loop. */
  soon(action: () => void): void;
}

export const NS_PER_MS = 1e6;
export const NS_PER_US = 1e3;
export const NS_PER_S = 1e9;

// setTimeout takes a signed 32-bit count of milliseconds; a longer delay would fire at once.
const TIMER_MS_MAX = 2 ** 31 - 1;

/** The machine's own clock. */
export const systemClock: Clock = {
  nowNs: () => Bun.nanoseconds(),
  wallMs: () => Date.now(),
  after(delayNs, action) {
    const ms = Math.min(Math.max(Math.ceil(delayNs / NS_PER_MS), 0), TIMER_MS_MAX);
    const handle = setTimeout(action, ms);
    handle.unref();
    return { cancel: () => clearTimeout(handle) };
  },
  soon: (action) => void setImmediate(action),
};

/** A clock that moves only when told to. Timers fire in order of time, ties in order of creation. */
export class VirtualClock implements Clock {
  private time = 0;
  private sequence = 0;
  private readonly timers: { atNs: number; sequence: number; action: () => void }[] = [];

  constructor(private readonly originWallMs = 0) {}

  nowNs(): number {
    return this.time;
  }

  wallMs(): number {
    return this.originWallMs + this.time / NS_PER_MS;
  }

  after(delayNs: number, action: () => void): Timer {
    const timer = { atNs: this.time + Math.max(delayNs, 0), sequence: this.sequence++, action };
    let index = this.timers.length;
    while (index > 0 && this.timers[index - 1]!.atNs > timer.atNs) index--;
    this.timers.splice(index, 0, timer);
    return {
      cancel: () => {
        const at = this.timers.indexOf(timer);
        if (at >= 0) this.timers.splice(at, 1);
      },
    };
  }

  soon(action: () => void): void {
    this.after(0, action);
  }

  /** When the next timer fires, in nanoseconds; undefined when none is set. */
  nextNs(): number | undefined {
    return this.timers[0]?.atNs;
  }

  /** Moves to the next timer and runs it; false when none is set. */
  step(): boolean {
    const timer = this.timers.shift();
    if (!timer) return false;
    this.time = timer.atNs;
    timer.action();
    return true;
  }

  /** Moves `deltaNs` on, running every timer that falls due on the way. */
  advance(deltaNs: number): void {
    const target = this.time + deltaNs;
    while (this.timers.length > 0 && this.timers[0]!.atNs <= target) this.step();
    this.time = target;
  }
}

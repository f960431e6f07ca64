// Where the inputs of runs go in an arena: leased in the order of the runs, waited for while the arena is full.
//
// Grants are calls, not promises: a run that finds room at once must not overtake one that was granted room a microtask
// ago. Used by pjrt.ts; with plain buffers every run is granted at once.

import { ServerError } from "../base/errors.ts";
import type { ArenaSpace } from "./arena.ts";

interface WaitingRun {
  readonly byteLength: number;
  readonly granted: (offset: number) => void;
  readonly refused: (error: ServerError) => void;
}

export class InputRegions {
  private readonly waiting: WaitingRun[] = [];
  private leased = 0;

  /** `space` is undefined for a device without an arena. */
  constructor(private readonly space: ArenaSpace | undefined) {}

  /** Calls `granted` when the bytes are there, `refused` when no run's end could ever make room for them. */
  lease(byteLength: number, granted: (offset: number) => void, refused: (error: ServerError) => void): void {
    this.waiting.push({ byteLength, granted, refused });
    this.serve();
  }

  release(offset: number, byteLength: number): void {
    this.leased--;
    this.space?.free(offset, byteLength);
    this.serve();
  }

  /** Refuses all that wait. */
  close(error: ServerError): void {
    for (const { refused } of this.waiting.splice(0)) refused(error);
  }

  private serve(): void {
    for (let first = this.waiting[0]; first; first = this.waiting[0]) {
      const offset = this.space ? this.space.allocate(first.byteLength) : 0;
      if (offset === undefined && this.leased > 0) return;
      this.waiting.shift();
      if (offset === undefined) {
        const message = `inputs of ${first.byteLength} bytes do not fit: ${this.space!.freeBytes} bytes of the device's arena are free`;
        first.refused(new ServerError("RESOURCE_EXHAUSTED", message));
      } else {
        this.leased++;
        first.granted(offset);
      }
    }
  }
}

// Job: a Checked request on its way through the device: its tickets, its parts as they come in, its one promise.
//
// Settled exactly once: with all its parts, or with the first failure (the rest is then called off or released).
// Made and fed by Dispatcher.

import type { ServerError } from "../base/errors.ts";
import type { Ticket } from "../schedule/ticket.ts";
import type { Checked } from "./checked.ts";
import { join, type Part, type Result } from "./split.ts";

/** Where a request's time went, in nanoseconds; of its slowest part where it was split. */
export interface Timing {
  readonly queueNs: number;
  /** Assemble and upload. */
  readonly inputNs: number;
  readonly executeNs: number;
  readonly outputNs: number;
}

/** A request's results. The views are valid until release(), to be called exactly once. */
export interface Executed {
  readonly results: readonly Result[];
  readonly timing: Timing;
  /** Compiled size of the (first) batch it ran in; 0 for key 0. */
  readonly batchSize: number;
  readonly release: () => void;
}

export class Job {
  readonly done: Promise<Executed>;
  tickets: readonly Ticket[] = [];
  private readonly parts: (Part | undefined)[];
  private missing: number;
  private settled = false;
  private timing: Timing = { queueNs: 0, inputNs: 0, executeNs: 0, outputNs: 0 };
  private resolve!: (executed: Executed) => void;
  private reject!: (error: ServerError) => void;

  constructor(
    readonly request: Checked,
    pieces: number,
  ) {
    this.parts = new Array(pieces).fill(undefined);
    this.missing = pieces;
    this.done = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }

  /** False once the request was answered: no piece of it needs to run any more. */
  get live(): boolean {
    return !this.settled;
  }

  /** Takes over the part's slab reference. */
  complete(piece: number, part: Part, timing: Timing): void {
    if (this.settled) {
      part.slab.release();
      return;
    }
    this.parts[piece] = part;
    if (timing.queueNs + timing.executeNs >= this.timing.queueNs + this.timing.executeNs) this.timing = timing;
    if (--this.missing > 0) return;
    this.settled = true;
    const parts = this.parts as Part[];
    const batchAxes = this.request.model.bundle.executable.outputs.map((spec) => spec.batchAxis);
    this.resolve({
      results: join(parts, batchAxes),
      timing: this.timing,
      batchSize: parts[0]!.unit.batchSize,
      release: () => {
        for (const part of parts) part.slab.release();
      },
    });
  }

  fail(error: ServerError): void {
    if (this.settled) return;
    this.settled = true;
    for (const part of this.parts) part?.slab.release();
    this.reject(error);
  }
}

// Job: a Checked request on its way through the device: its tickets, its rows as they come in, its one promise.
//
// Settled exactly once: with all its rows, or with the first failure. Made and fed by Dispatcher.

import type { ServerError } from "../base/errors.ts";
import type { Slab } from "../device/device.ts";
import type { Unit } from "../model/unit.ts";
import type { Ticket } from "../schedule/ticket.ts";
import type { Placed } from "./assemble.ts";
import type { Checked } from "./checked.ts";
import { emptyResults, gatherResults, hasViews, type Result, viewResults } from "./split.ts";

/** Where a request's time went, in nanoseconds; where it was split, until its first piece ran and that of all pieces. */
export interface Timing {
  readonly queueNs: number;
  /** Assemble and upload. */
  readonly inputNs: number;
  readonly executeNs: number;
  readonly outputNs: number;
}

/** A request's results. The bytes are valid until release(), to be called exactly once. */
export interface Executed {
  readonly results: readonly Result[];
  readonly timing: Timing;
  /** Compiled size of the (last) batch it ran in; 0 for key 0. */
  readonly batchSize: number;
  readonly release: () => void;
}

const NOTHING_TO_RELEASE = () => {};

function merge(a: Timing, b: Timing): Timing {
  return {
    queueNs: Math.min(a.queueNs, b.queueNs),
    inputNs: a.inputNs + b.inputNs,
    executeNs: a.executeNs + b.executeNs,
    outputNs: a.outputNs + b.outputNs,
  };
}

export class Job {
  readonly done: Promise<Executed>;
  /** One for each piece, in order of rows. */
  readonly tickets: readonly Ticket[];
  private missing: number;
  private settled = false;
  private gathered: ReturnType<typeof emptyResults> | undefined;
  private timing: Timing = { queueNs: 0, inputNs: 0, executeNs: 0, outputNs: 0 };
  private resolve!: (executed: Executed) => void;
  private reject!: (error: ServerError) => void;

  constructor(
    readonly request: Checked,
    tickets: readonly Ticket[],
  ) {
    this.tickets = tickets;
    this.missing = tickets.length;
    this.done = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }

  /** False once the request was answered: no piece of it needs to run any more. */
  get live(): boolean {
    return !this.settled;
  }

  /** Takes one piece's rows out of the slab that they were computed in. */
  complete(unit: Unit, placed: Placed, slab: Slab, timing: Timing): void {
    if (this.settled) return;
    if (this.tickets.length === 1 && hasViews(unit)) {
      slab.retain();
      this.succeed({
        results: viewResults(unit, placed, slab),
        timing,
        batchSize: unit.batchSize,
        release: () => slab.release(),
      });
      return;
    }
    this.gathered ??= emptyResults(unit, this.request.rows);
    gatherResults(unit, placed, slab, this.request.rows, this.gathered.bytes);
    this.timing = this.missing === this.tickets.length ? timing : merge(this.timing, timing);
    if (--this.missing > 0) return;
    const { results } = this.gathered;
    this.succeed({ results, timing: this.timing, batchSize: unit.batchSize, release: NOTHING_TO_RELEASE });
  }

  fail(error: ServerError): void {
    if (this.settled) return;
    this.settled = true;
    this.reject(error);
  }

  private succeed(executed: Executed): void {
    this.settled = true;
    this.resolve(executed);
  }
}

// Tickets, model queues and batches: the plain data that scheduling decides about.
//
// A Ticket is a place in one model's queue; what it stands for (a request, or a piece of an oversize one) is known to
// infer/ alone. Nothing in this room holds a promise, reads a clock or knows a device. Used by infer/ and model/.

/** One unit of waiting work: `rows` rows of one model in one variant. At most the largest compiled size. */
export interface Ticket {
  /** Order of arrival over all models; unique. */
  readonly sequence: number;
  readonly queue: ModelQueue;
  readonly variant: number;
  readonly rows: number;
  readonly enqueuedNs: number;
  /** Monotonic; Infinity without a deadline. */
  readonly deadlineNs: number;
  state: "new" | "queued" | "taken" | "removed";
}

/** How one model may be batched. */
export interface BatchRules {
  readonly name: string;
  /** Compiled batch sizes by variant, each ascending; [0] for a module that serves one request as it is ("key 0"). */
  readonly sizes: readonly (readonly number[])[];
  /** Whether several requests may share an execution, and rows may be padded. */
  readonly coalescable: boolean;
  /** Rows in one execution at most, whatever sizes are compiled; Infinity without a limit. */
  readonly maxBatchSize: number;
  /** How long the front ticket may wait for others to fill its batch; 0 never waits. */
  readonly maxQueueDelayNs: number;
  /** Tickets that may wait at most. */
  readonly maxQueueDepth: number;
  /** What one execution of a compiled size is expected to take, transfers and hand-over included; undefined if unknown. */
  readonly costNs: (variant: number, size: number) => number | undefined;
}

/** Rows that one execution of a variant takes at most: its largest size within the cap, else the cap itself. */
export function rowLimit({ sizes, maxBatchSize }: BatchRules, variant: number): number {
  const largest = sizes[variant]!.findLast((size) => size <= maxBatchSize);
  return largest ?? Math.min(maxBatchSize, sizes[variant]!.at(-1)!);
}

/** What select() decided: these tickets run now, in this order of rows, at this compiled size. */
export interface Batch {
  readonly queue: ModelQueue;
  readonly variant: number;
  /** The compiled size to execute; 0 for key 0. */
  readonly size: number;
  readonly rows: number;
  readonly tickets: readonly Ticket[];
  /** No more rows would have fitted: committing it early costs nobody a place. */
  readonly full: boolean;
}

/** One model's waiting tickets, first in first out. Removal from the middle is lazy; the front is always live. */
export class ModelQueue {
  private tickets: Ticket[] = [];
  private head = 0;
  private live = 0;

  constructor(readonly rules: BatchRules) {}

  get depth(): number {
    return this.live;
  }

  get front(): Ticket | undefined {
    return this.tickets[this.head];
  }

  push(ticket: Ticket): void {
    ticket.state = "queued";
    this.tickets.push(ticket);
    this.live++;
  }

  /** Takes a ticket out, as `taken` (by a batch) or `removed` (cancelled, expired). False if it was not waiting. */
  take(ticket: Ticket, as: "taken" | "removed"): boolean {
    if (ticket.state !== "queued") return false;
    ticket.state = as;
    this.live--;
    this.trim();
    return true;
  }

  /** Live tickets from the front, in order. */
  *waiting(): Generator<Ticket> {
    for (let index = this.head; index < this.tickets.length; index++) {
      const ticket = this.tickets[index]!;
      if (ticket.state === "queued") yield ticket;
    }
  }

  private trim(): void {
    while (this.head < this.tickets.length && this.tickets[this.head]!.state !== "queued") this.head++;
    // Half the array dead: copy the rest down, so that memory follows the depth and the cost stays O(1) amortised.
    if (this.head > 64 && this.head * 2 > this.tickets.length) {
      this.tickets = this.tickets.slice(this.head);
      this.head = 0;
    }
  }
}

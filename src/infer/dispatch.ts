// dispatch: tickets become batches, batches run on the device, results return to their jobs.
//
// select -> acquire -> assemble -> upload, execute, download -> split. At most DEPTH batches are with the device; a
// second one is committed early only when it is full, or when the running one is about to end (else a later arrival
// would find its place taken by padding). Every job is settled exactly once. Owned by the worker, fed by request.ts.

import { type Clock, NS_PER_MS, type Timer } from "../base/clock.ts";
import { assert, ServerError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { Device, Slab } from "../device/device.ts";
import { type Model, rowsMax, unitOf } from "../model/model.ts";
import type { Unit } from "../model/unit.ts";
import type { Scheduler } from "../schedule/scheduler.ts";
import type { Batch, Ticket } from "../schedule/ticket.ts";
import { assemble, type Placed } from "./assemble.ts";
import type { Checked } from "./checked.ts";
import { Job } from "./job.ts";
import { resultBytes } from "./split.ts";

// Two: one executes while the next one's inputs go up. A third would only take decisions earlier than needed.
const DEPTH = 2;

// A batch is committed this long before the running one is expected to end: two messages between threads (15 us each
// way) and the copy of a small batch, with room for a busy machine.
const COMMIT_AHEAD_NS = 0.3 * NS_PER_MS;

// An execution that is expected to take less may run on this thread: handing it to another and back takes 60 us, and more
// where both share a core. The bytes bound keeps copies out of the slab as short.
const QUICK_NS = 100_000;
const QUICK_BYTES = 256 << 10;

interface Piece {
  readonly job: Job;
  /** First row within the request. */
  readonly from: number;
}

interface PlacedPiece extends Placed {
  readonly job: Job;
  readonly ticket: Ticket;
}

interface Run {
  startNs: number;
  readonly unit: Unit;
}

export interface DispatcherOptions {
  readonly device: Device;
  readonly scheduler: Scheduler;
  readonly clock: Clock;
  readonly log: Logger;
  /** Bytes that the results of one request may have; a longer reply could not be sent. */
  readonly resultBytesMax: number;
}

export class Dispatcher {
  private readonly pieces = new Map<Ticket, Piece>();
  private readonly running: Run[] = [];
  private pumpDue = false;
  private wake: Timer | undefined;

  constructor(private readonly options: DispatcherOptions) {}

  /**
   * Queues a request, split where it has more rows than the largest batch. `deadlineNs` is monotonic, or Infinity.
   * Errors: RESOURCE_EXHAUSTED (queue full, results too large); through the job DEADLINE_EXCEEDED and the device's.
   */
  submit(request: Checked, deadlineNs: number): Job {
    const { scheduler, clock } = this.options;
    const { model, variant, rows } = request;
    const limit = Math.min(rowsMax(model, variant), rows);
    this.refuseLargeResults(request);
    const tickets = scheduler.enqueue(model.queue, variant, rows, limit, clock.nowNs(), deadlineNs);
    const job = new Job(request, tickets);
    for (let index = 0; index < tickets.length; index++) this.pieces.set(tickets[index]!, { job, from: index * limit });
    this.pumpSoon();
    return job;
  }

  /** Answers the job with `error` and frees its places in the queue; what already runs is run to no use. */
  cancel(job: Job, error: ServerError): void {
    if (!job.live) return;
    job.fail(error);
    for (const ticket of job.tickets) {
      if (this.options.scheduler.remove(ticket, this.options.clock.nowNs())) this.pieces.delete(ticket);
    }
    // Those behind it may make a full batch now.
    this.pumpSoon();
  }

  private refuseLargeResults({ model, variant, rows }: Checked): void {
    const bytes = resultBytes(model.units[variant]![0]!, rows);
    const { resultBytesMax } = this.options;
    if (bytes <= resultBytesMax) return;
    throw new ServerError(
      "RESOURCE_EXHAUSTED",
      `model '${model.name}': the results of ${rows} rows are ${bytes} bytes, at most ${resultBytesMax} can be sent (grpc.max_send_msg_bytes)`,
    );
  }

  private pumpSoon(): void {
    if (this.pumpDue) return;
    this.pumpDue = true;
    // At the end of the turn, so that requests which arrived together can share a batch.
    this.options.clock.soon(() => {
      this.pumpDue = false;
      this.pump();
    });
  }

  private pump(): void {
    this.wake?.cancel();
    this.wake = undefined;
    const { clock, scheduler } = this.options;
    while (this.running.length < DEPTH) {
      const nowNs = clock.nowNs();
      const busyForNs = this.remainingNs(nowNs);
      const selection = scheduler.select(nowNs, busyForNs > COMMIT_AHEAD_NS);
      for (const ticket of selection.expired) this.expire(ticket);
      if (selection.kind === "batch") {
        void this.run(selection.batch);
        continue;
      }
      let waitNs = selection.kind === "wait" ? selection.untilNs - nowNs : Infinity;
      if (busyForNs > COMMIT_AHEAD_NS && this.pieces.size > 0) waitNs = Math.min(waitNs, busyForNs - COMMIT_AHEAD_NS);
      if (waitNs < Infinity) this.wake = clock.after(waitNs, () => this.pump());
      return;
    }
  }

  /** How long the device is expected to be busy yet; 0 when it is idle or nothing is known. */
  private remainingNs(nowNs: number): number {
    const head = this.running[0];
    return head ? Math.max(head.startNs + (head.unit.cost.ns ?? 0) - nowNs, 0) : 0;
  }

  private expire(ticket: Ticket): void {
    const piece = this.pieces.get(ticket);
    this.pieces.delete(ticket);
    if (piece) this.cancel(piece.job, deadlineError(piece.job.request.model));
  }

  private async run(batch: Batch): Promise<void> {
    const { device, clock, log } = this.options;
    const pieces = batch.tickets.map((ticket) => this.takePiece(ticket));
    const { model } = pieces[0]!.job.request;
    const unit = unitOf(model, batch.variant, batch.size);
    const run: Run = { startNs: clock.nowNs(), unit };
    this.running.push(run);
    try {
      const slab = await device.leaseSlab(unit.layout);
      try {
        await this.execute(model, run, batch, pieces, slab);
      } finally {
        slab.release();
      }
    } catch (thrown) {
      const error = ServerError.from(thrown, `model '${model.name}': execution failed`);
      log.error("batch failed", { model: model.name, batch: batch.size, rows: batch.rows, error });
      for (const { job } of pieces) this.cancel(job, error);
      model.statistics.failedBatch();
    } finally {
      this.running.splice(this.running.indexOf(run), 1);
      // The next in line has had the device to itself only from now on.
      if (this.running[0]) this.running[0].startNs = clock.nowNs();
      this.pump();
    }
  }

  private async execute(model: Model, run: Run, batch: Batch, pieces: readonly Piece[], slab: Slab): Promise<void> {
    const { device, clock } = this.options;
    const { unit } = run;
    const startNs = clock.nowNs();
    if (this.running[0] === run) run.startNs = startNs;
    const placed = this.place(batch, pieces, startNs);
    if (placed.length === 0) return;
    assemble(unit, placed, slab);
    const assembleNs = clock.nowNs() - startNs;
    const quick = unit.cost.ns !== undefined && unit.cost.ns < QUICK_NS && unit.layout.byteLength < QUICK_BYTES;
    const { uploadNs, executeNs, downloadNs } = await device.run(unit.executable, model.weights, slab, quick);
    unit.cost.learn(executeNs);
    const rows = placed.reduce((sum, { rows: own }) => sum + own, 0);
    model.statistics.executed(batch.size, rows, uploadNs + executeNs + downloadNs);
    for (const place of placed) {
      const timing = {
        queueNs: startNs - place.ticket.enqueuedNs,
        inputNs: assembleNs + uploadNs,
        executeNs,
        outputNs: downloadNs,
      };
      place.job.complete(unit, place, slab, timing);
    }
  }

  /** The pieces that still want to run, one after another from row 0; those too late are answered here. */
  private place(batch: Batch, pieces: readonly Piece[], nowNs: number): PlacedPiece[] {
    const placed: PlacedPiece[] = [];
    let at = 0;
    for (let index = 0; index < pieces.length; index++) {
      const { job, from } = pieces[index]!;
      const ticket = batch.tickets[index]!;
      if (ticket.deadlineNs <= nowNs) this.cancel(job, deadlineError(job.request.model));
      if (!job.live) continue;
      placed.push({ request: job.request, from, rows: ticket.rows, at, job, ticket });
      at += ticket.rows;
    }
    return placed;
  }

  private takePiece(ticket: Ticket): Piece {
    const piece = this.pieces.get(ticket);
    assert(piece, `ticket ${ticket.sequence} of '${ticket.queue.rules.name}' has no piece`);
    this.pieces.delete(ticket);
    return piece;
  }
}

function deadlineError(model: Model): ServerError {
  return new ServerError(
    "DEADLINE_EXCEEDED",
    `model '${model.name}': the deadline passed before the request could run`,
  );
}

// What the log hears of hooks: what they print, why they fail and where, what threads they took along.
//
// The client gets a failure's message; its place in the bundle's files stands here only. A hook that fails with every
// request adds a bounded number of lines. Used by pool.ts.

import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import type { HookJob, LoadedFile } from "./job.ts";
import { LineGate } from "./line-gate.ts";
import type { Aside, FailedReport } from "./messages.ts";

const EVENTS = { output: "hook output", stray: "hook error outside of any call", failed: "hook failed" } as const;

export class HookLog {
  /** One a load: a bundle that always fails must not hide what another does. */
  private readonly gates = new WeakMap<LoadedFile, LineGate>();

  constructor(
    private readonly log: Logger,
    private readonly clock: Clock,
  ) {}

  /** `running`: the model whose hook runs; `imported`: all that the thread has, for it may be the doing of any. */
  aside(aside: Aside, thread: string, running: string | undefined, imported: string): void {
    const model = running ?? imported;
    if (aside.kind === "output") this.log[aside.level](EVENTS.output, { model, thread, text: aside.text });
    else if (aside.kind === "dropped") this.dropped(aside.lines, EVENTS[aside.of], model, thread);
    else this.log.warn(EVENTS.stray, { models: imported, thread, error: aside.message, stack: aside.stack });
  }

  /** A call that threw. A load that did is told by who asked for it, and InvalidInput is the client's matter. */
  failed({ code, message, stack }: FailedReport, thread: string, { file, call }: HookJob): void {
    if (!call || code !== "INTERNAL") return;
    let gate = this.gates.get(file);
    if (!gate) {
      gate = new LineGate(this.clock, (lines) => this.dropped(lines, EVENTS.failed, file.name));
      this.gates.set(file, gate);
    }
    if (!gate.admits()) return;
    this.log.warn(EVENTS.failed, { model: file.name, hook: call.hook, thread, error: message, stack });
  }

  /** An import that changed built-ins, which are shared with whatever else the thread serves. */
  changed(changed: readonly string[], thread: string, { file }: HookJob): void {
    if (changed.length > 0) this.log.warn("hooks change built-ins", { model: file.name, thread, changed });
  }

  /** A thread that was ended, with the job that it was ended for. */
  ended(why: string, thread: string, { file }: HookJob): void {
    this.log.warn("hook ended", { model: file.name, thread, error: why });
  }

  /** A thread that ended by itself. */
  died(message: string, thread: string, model: string | undefined): void {
    this.log.warn("hook thread ended", { model, thread, error: message });
  }

  private dropped(lines: number, of: string, model: string, thread?: string): void {
    this.log.warn("hook lines dropped", { model, thread, of, lines });
  }
}

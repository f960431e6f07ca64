// Where log lines leave the process: written at once, or kept for a reader that has stalled, or counted as lost.
//
// Writing never waits, so that no reader of the log can stop the server (a terminal can, which its user stops). As long
// as lines are taken they are with the system before write() returns: a process that dies the next moment has said why.
// What a stalled reader has not taken when the process ends is lost, beyond what written() waits for. Used by log.ts.

import { systemClock } from "./clock.ts";
import { type DescriptorWriter, descriptorWriter } from "./files.ts";
import { LOG_FLUSH_NS_MAX, LOG_QUEUE_CHARACTERS_MAX } from "./limits.ts";

export class LogOutput {
  private writer: DescriptorWriter | undefined;
  /** Settles when the reader has taken what was written last; undefined while nothing waits. */
  private stalled: Promise<void> | undefined;
  private queued = "";
  private linesLost = 0;

  constructor(private readonly descriptor: number) {}

  /** Takes whole lines. Never throws and never waits. */
  write(lines: string): void {
    if (!this.stalled) this.send(lines);
    else if (this.queued.length + lines.length <= LOG_QUEUE_CHARACTERS_MAX) this.queued += lines;
    else this.linesLost += countLines(lines);
  }

  /** Waits until the reader has taken all lines, for a second at most. */
  async written(): Promise<void> {
    if (!this.stalled) return;
    const { promise: late, resolve: giveUp } = Promise.withResolvers<"late">();
    const timer = systemClock.after(LOG_FLUSH_NS_MAX, () => giveUp("late"));
    while (this.stalled && (await Promise.race([this.stalled, late])) !== "late");
    timer.cancel();
  }

  private send(lines: string): void {
    const lost = this.linesLost;
    const report = lost > 0 ? `${JSON.stringify({ level: "warn", event: "log lines lost", count: lost })}\n` : "";
    // The reader is gone (EPIPE), or the disk is full: the server goes on.
    const fail = () => {
      this.linesLost += lost + countLines(lines);
    };
    this.linesLost = 0;
    try {
      this.writer ??= descriptorWriter(this.descriptor);
      this.stalled = this.writer(report + lines)
        ?.catch(fail)
        .then(() => this.resume());
    } catch {
      fail();
    }
  }

  private resume(): void {
    this.stalled = undefined;
    const lines = this.queued;
    this.queued = "";
    if (lines !== "") this.send(lines);
  }
}

function countLines(text: string): number {
  let count = 0;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) count++;
  return count;
}

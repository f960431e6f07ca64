// Turns at something of which only so many may happen at once; who comes first goes first.
//
// Invariant: `giveBack` follows every `take` that resolved. One a server, for zlib's work; used by `message-inbox.ts` and
// `reply-outbox.ts`.

export class Turns {
  private readonly waiting: (() => void)[] = [];
  private taken = 0;

  constructor(private readonly turnsMax: number) {}

  /** Resolves when it is the caller's turn, until `giveBack`. */
  async take(): Promise<void> {
    if (this.taken < this.turnsMax) this.taken++;
    else await new Promise<void>((resolve) => this.waiting.push(resolve));
  }

  /** Ends a turn: it is the next one's. */
  giveBack(): void {
    const next = this.waiting.shift();
    if (next) next();
    else this.taken--;
  }
}

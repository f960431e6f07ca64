// The server as a process: dist/xlaserver (from source where it isn't built) on free ports, killed when disposed.
//
// Ports are read from the server's own log, which must be JSON for that; every line is kept for tests to look at.
// Used by e2e tests and benchmarks.

import { existsSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "..", "..");
const EXECUTABLE = join(ROOT, "dist", "xlaserver");

/** Compiling the models of a repository with a cold cache takes seconds on a busy machine. */
const READY_MS_MAX = 120_000;

export interface LogLine {
  readonly level: string;
  readonly event: string;
  readonly [field: string]: unknown;
}

export interface WorkerOptions {
  /** Directory of bundles. */
  readonly repository: string;
  /** More flags of `xlaserver serve`. */
  readonly flags?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
}

export interface TestWorker extends AsyncDisposable {
  readonly pid: number;
  readonly grpcPort: number;
  readonly metricsPort: number;
  /** `127.0.0.1:port` of gRPC. */
  readonly address: string;
  /** Every line of the log so far; what is no JSON has the event "text". */
  readonly log: readonly LogLine[];
  /** Resolves with the first line of this event, past or future; rejects when the server ends without it. */
  logged(event: string, matches?: (line: LogLine) => boolean): Promise<LogLine>;
  /** Sends a signal. */
  kill(signal: NodeJS.Signals): void;
  /** The exit code, or the signal's name. */
  readonly exited: Promise<number | string>;
}

/** How to run the server: the executable, or Bun on its source. */
export function serverCommand(): string[] {
  return existsSync(EXECUTABLE) ? [EXECUTABLE] : [process.execPath, join(ROOT, "src", "main.ts")];
}

/**
 * Starts a server; resolves when its ports are open and /readyz says that every bundle has settled.
 * Throws with the end of its log when it ends before that, or takes too long.
 */
export async function startWorker(options: WorkerOptions): Promise<TestWorker> {
  const flags = ["--grpc-port", "0", "--metrics-port", "0", "--log-format", "json", ...(options.flags ?? [])];
  const child = Bun.spawn([...serverCommand(), "serve", "--model-repository", options.repository, ...flags], {
    env: { ...process.env, ...options.environment },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const log = new LogReader(child.stderr);
  const exited = child.exited.then((code) => (child.signalCode === null ? code : String(child.signalCode)));
  const kill = (signal: NodeJS.Signals) => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
  };
  try {
    const [grpcPort, metricsPort] = await Promise.all(
      ["grpc", "metrics"].map(async (service) => {
        const line = await log.first("listening", (candidate) => candidate.service === service);
        return Number(line.port);
      }),
    );
    await ready(metricsPort!, exited);
    return {
      pid: child.pid,
      grpcPort: grpcPort!,
      metricsPort: metricsPort!,
      address: `127.0.0.1:${grpcPort}`,
      log: log.lines,
      logged: (event, matches) => log.first(event, matches),
      kill,
      exited,
      async [Symbol.asyncDispose]() {
        kill("SIGKILL");
        await exited;
      },
    };
  } catch (thrown) {
    kill("SIGKILL");
    await exited;
    throw new Error(`the server did not get ready; the end of its log:\n${log.tail()}`, { cause: thrown });
  }
}

async function ready(metricsPort: number, exited: Promise<unknown>): Promise<void> {
  const deadline = AbortSignal.timeout(READY_MS_MAX);
  let ended = false;
  exited.then(() => {
    ended = true;
  });
  while (!ended) {
    const answer = await fetch(`http://127.0.0.1:${metricsPort}/readyz`, { signal: deadline });
    await answer.text();
    if (answer.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error("the server ended before it was ready");
}

/** A log's lines as they come, and those who wait for one. */
class LogReader {
  readonly lines: LogLine[] = [];
  private waiting: { matches: (line: LogLine) => boolean; resolve: (line: LogLine) => void; reject: (e: Error) => void }[] =
    [];
  private ended = false;

  constructor(stream: ReadableStream<Uint8Array>) {
    this.read(stream);
  }

  first(event: string, matches: (line: LogLine) => boolean = () => true): Promise<LogLine> {
    const wanted = (line: LogLine) => line.event === event && matches(line);
    const known = this.lines.find(wanted);
    if (known) return Promise.resolve(known);
    if (this.ended) return Promise.reject(new Error(`the log ended without '${event}'`));
    return new Promise((resolve, reject) => this.waiting.push({ matches: wanted, resolve, reject }));
  }

  tail(): string {
    return this.lines
      .slice(-20)
      .map((line) => JSON.stringify(line))
      .join("\n");
  }

  private async read(stream: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    let rest = "";
    for await (const chunk of stream) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = lines.pop()!;
      for (const text of lines) this.add(parse(text));
    }
    this.ended = true;
    for (const { reject } of this.waiting) reject(new Error("the server's log ended"));
  }

  private add(line: LogLine): void {
    this.lines.push(line);
    const [found, others] = [this.waiting.filter(({ matches }) => matches(line)), this.waiting];
    this.waiting = others.filter((waiter) => !found.includes(waiter));
    for (const { resolve } of found) resolve(line);
  }
}

function parse(text: string): LogLine {
  try {
    return JSON.parse(text) as LogLine;
  } catch {
    return { level: "info", event: "text", text };
  }
}

// The server as a process: dist/xlaserver (from source where that is newer) on free ports, killed when disposed.
//
// Ports are read from the server's own log, which must be JSON for that; every line is kept for tests to look at.
// Used by e2e tests and benchmarks.

import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "..", "..");
const EXECUTABLE = join(ROOT, "dist", "xlaserver");
/** Compiled executables, kept from run to run: most tests are not about compiling. */
const CACHE = join(ROOT, ".deps", "test-cache");

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
  /** A cache of the test's own; by default one that is kept from run to run. */
  readonly cacheDirectory?: string;
  /** A free one by default. */
  readonly grpcPort?: number;
  /** A free one by default. */
  readonly metricsPort?: number;
  readonly environment?: Readonly<Record<string, string>>;
}

/** A server's process, from its first moment on; killed when disposed. */
export interface ServerProcess extends AsyncDisposable {
  readonly pid: number;
  /** Every line of the log so far; what is no JSON has the event "text". */
  readonly log: readonly LogLine[];
  /** Resolves with the first line of this event, past or future; rejects when the server ends without it. */
  logged(event: string, matches?: (line: LogLine) => boolean): Promise<LogLine>;
  /** The port of a service, "grpc" or "metrics", once it is open. */
  port(service: string): Promise<number>;
  /** Sends a signal. */
  kill(signal: NodeJS.Signals): void;
  /** The exit code, or the signal's name; the log is whole by then. */
  readonly exited: Promise<number | string>;
}

export interface TestWorker extends ServerProcess {
  readonly grpcPort: number;
  readonly metricsPort: number;
  /** `127.0.0.1:port` of gRPC. */
  readonly address: string;
}

/** How to run the server: the executable, or Bun on its source where that is newer. `npm test` builds first. */
export function serverCommand(): string[] {
  const executableMs = existsSync(EXECUTABLE) ? statSync(EXECUTABLE).mtimeMs : 0;
  const sources = ["src", "ffi", "proto"].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { withFileTypes: true, recursive: true }),
  );
  const newer = sources.some(
    (file) =>
      file.isFile() &&
      !file.name.includes(".test.") &&
      statSync(join(file.parentPath, file.name)).mtimeMs > executableMs,
  );
  return newer ? [process.execPath, join(ROOT, "src", "main.ts")] : [EXECUTABLE];
}

/** Starts a server and waits for nothing. */
export function spawnServer(options: WorkerOptions): ServerProcess {
  const settings = {
    "model-repository": options.repository,
    "grpc-port": options.grpcPort ?? 0,
    "metrics-port": options.metricsPort ?? 0,
    "cache-dir": options.cacheDirectory ?? CACHE,
    "log-format": "json",
  };
  const flags = Object.entries(settings).map(([flag, value]) => `--${flag}=${value}`);
  const child = Bun.spawn([...serverCommand(), "serve", ...flags, ...(options.flags ?? [])], {
    env: { ...process.env, ...options.environment },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const log = new LogReader(child.stderr);
  const exited = child.exited.then(async (code) => {
    await log.ended;
    return child.signalCode === null ? code : String(child.signalCode);
  });
  const kill = (signal: NodeJS.Signals) => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
  };
  return {
    pid: child.pid,
    log: log.lines,
    logged: (event, matches) => log.first(event, matches),
    async port(service) {
      return Number((await log.first("listening", (line) => line.service === service)).port);
    },
    kill,
    exited,
    async [Symbol.asyncDispose]() {
      kill("SIGKILL");
      await exited;
    },
  };
}

/**
 * Starts a server; resolves when its ports are open and /readyz says that every bundle has settled.
 * Throws with the end of its log when it ends before that, or takes too long.
 */
export async function startWorker(options: WorkerOptions): Promise<TestWorker> {
  const server = spawnServer(options);
  try {
    const [grpcPort, metricsPort] = await Promise.all([server.port("grpc"), server.port("metrics")]);
    await ready(metricsPort, server.exited);
    return { ...server, grpcPort, metricsPort, address: `127.0.0.1:${grpcPort}` };
  } catch (thrown) {
    await server[Symbol.asyncDispose]();
    const tail = server.log.slice(-20).map((line) => JSON.stringify(line));
    throw new Error(`the server did not get ready; the end of its log:\n${tail.join("\n")}`, { cause: thrown });
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
  private waiting: {
    matches: (line: LogLine) => boolean;
    resolve: (line: LogLine) => void;
    reject: (e: Error) => void;
  }[] = [];
  /** Resolves when nothing more can come. */
  readonly ended: Promise<void>;
  private over = false;

  constructor(stream: ReadableStream<Uint8Array>) {
    this.ended = this.read(stream);
  }

  first(event: string, matches: (line: LogLine) => boolean = () => true): Promise<LogLine> {
    const wanted = (line: LogLine) => line.event === event && matches(line);
    const known = this.lines.find(wanted);
    if (known) return Promise.resolve(known);
    if (this.over) return Promise.reject(new Error(`the log ended without '${event}'`));
    return new Promise((resolve, reject) => this.waiting.push({ matches: wanted, resolve, reject }));
  }

  private async read(stream: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    let rest = "";
    for await (const chunk of stream) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = lines.pop()!;
      for (const text of lines) this.add(parse(text));
    }
    this.over = true;
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

// h2load (Debian: nghttp2-client) as the load of the wire benchmarks: one run, its rate, and what failed.
//
// Every request is the same gRPC message. h2load knows HTTP status only: whoever cares about the gRPC status looks at the
// server's own counters. Used by tests/bench/wire.ts and served.ts.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface Load {
  /** Connections, and concurrent streams on each. */
  readonly connections: number;
  readonly streams: number;
  /** The request's message, its five bytes of prefix left out. */
  readonly message: Uint8Array;
  readonly requests: number;
}

export interface Outcome {
  readonly perSecond: number;
  /** Mean time of a request in microseconds, as h2load reports it. */
  readonly meanUs: number;
}

/** Holds the message's file; removed by `dispose`. */
export class H2load implements Disposable {
  private readonly directory = mkdtempSync(join(tmpdir(), "wire-"));

  /** @param core the core that h2load is pinned to */
  constructor(private readonly core: number) {}

  /** Runs the load. Throws when a request failed. */
  async run(port: number, path: string, load: Load): Promise<Outcome> {
    const file = join(this.directory, "message");
    const prefix = Buffer.alloc(5);
    prefix.writeUInt32BE(load.message.byteLength, 1);
    writeFileSync(file, Buffer.concat([prefix, load.message]));
    const options = ["-n", load.requests, "-c", load.connections, "-m", load.streams, "-w", 25, "-W", 25].map(String);
    const headers = ["-H", "content-type: application/grpc", "-H", "te: trailers", "-d", file];
    const command = [
      "taskset",
      "-c",
      String(this.core),
      "h2load",
      ...options,
      ...headers,
      `http://127.0.0.1:${port}${path}`,
    ];
    const child = Bun.spawn(command, { stdout: "pipe", stderr: "pipe" });
    const output = await new Response(child.stdout).text();
    await child.exited;
    const perSecond = /([\d.]+) req\/s/.exec(output)?.[1];
    const succeeded = /(\d+) succeeded/.exec(output)?.[1];
    if (perSecond === undefined || Number(succeeded) !== load.requests) throw new Error(`h2load failed:\n${output}`);
    return { perSecond: Number(perSecond), meanUs: meanUs(output) };
  }

  [Symbol.dispose](): void {
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/** The mean of the line "time for request: min max mean sd ...". */
function meanUs(output: string): number {
  const match = /time for request:\s+\S+\s+\S+\s+([\d.]+)(us|ms|s)/.exec(output);
  return match ? Number(match[1]) * { us: 1, ms: 1e3, s: 1e6 }[match[2] as "us" | "ms" | "s"] : Number.NaN;
}

// dist/xlaserver as a child process: started on free ports, waited for, shown when it fails, always ended.
//
// The server runs in a process group of its own, so that Ctrl-C reaches this script alone, which then asks the server
// once to drain. Its log goes to a file, and to the terminal while `follow` is on. Used by start.mjs.

import { spawn } from "node:child_process";
import { createWriteStream, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { at, EXECUTABLE } from "./paths.mjs";
import { lastLines, SetupError } from "./run.mjs";

const READY_MS_MAX = 120_000;
const POLL_MS = 50;

/** `preferred` if nothing listens there, else a port that was free a moment ago. */
export async function freePort(preferred) {
  for (const port of [preferred, 0]) {
    const taken = await new Promise((resolve) => {
      const probe = createServer();
      probe.once("error", () => resolve(undefined));
      probe.listen(port, "127.0.0.1", () => {
        const { port: bound } = probe.address();
        probe.close(() => resolve(bound));
      });
    });
    if (taken !== undefined) return taken;
  }
  throw new SetupError("no port on 127.0.0.1 can be listened on");
}

/**
 * Starts `xlaserver serve` on a directory of bundles.
 * @param {{repository: string, grpcPort: number, metricsPort: number}} options
 */
export function startServer({ repository, grpcPort, metricsPort }) {
  const ports = ["--grpc-port", String(grpcPort), "--metrics-port", String(metricsPort)];
  const format = ["--log-format", process.stderr.isTTY ? "text" : "json"];
  const child = spawn(EXECUTABLE, ["serve", "--model-repository", repository, ...ports, ...format], {
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const logFile = at("dist", "xlaserver.log");
  const log = createWriteStream(logFile);
  let following = false;
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => {
      log.write(chunk);
      if (following) process.stderr.write(chunk);
    });
  }
  const exited = new Promise((resolve, reject) => {
    child.on("error", (error) => reject(new SetupError(`${EXECUTABLE}: ${error.message}`)));
    child.on("close", (code, signal) => log.end(() => resolve(code ?? signal)));
  });
  exited.catch(() => {}); // Whoever waits sees it; nobody may be waiting yet.
  return {
    logFile,
    /** Settles with the exit code or signal when the server has ended. */
    exited,
    follow: () => {
      following = true;
    },
    /** Resolves when /readyz says so; throws with the log's end if the server ends first or takes too long. */
    async ready() {
      const deadline = Date.now() + READY_MS_MAX;
      let ended;
      exited.then(
        (code) => {
          ended = new SetupError(`the server ended with ${code} before it was ready`);
        },
        (error) => {
          ended = error;
        },
      );
      while (!(await answersOk(`http://127.0.0.1:${metricsPort}/readyz`))) {
        if (!ended && Date.now() > deadline)
          ended = new SetupError(`the server was not ready in ${READY_MS_MAX / 1000} s`);
        if (ended) {
          ended.output = lastLines(readFileSync(logFile, "utf8"));
          throw ended;
        }
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      }
    },
    /** Asks the server to drain, or to end at once if it was asked before. */
    terminate: () => child.kill("SIGTERM"),
    /** Asks the server to drain and waits until it has ended. */
    async stop() {
      if (child.exitCode === null && child.signalCode === null) child.kill("SIGTERM");
      await exited.catch(() => {});
    },
  };
}

async function answersOk(url) {
  try {
    return (await fetch(url)).ok;
  } catch {
    return false; // not listening yet
  }
}

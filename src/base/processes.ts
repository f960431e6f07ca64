// The one door to processes: this program started once more as a helper, with messages both ways.
//
// A helper is told apart by a hidden subcommand (`xlaserver __compile`); from source, Bun runs the helper's own entry
// file instead. It ends when its parent does, and a crash in it reaches the parent as an Exit, never as a signal.
// Used by device/ (compiling, probing plugins); the supervisor will start its workers here.

import { setPriority } from "node:os";
import { fileURLToPath } from "node:url";
import { messageOf } from "./errors.ts";
import { compiled } from "./program.ts";

// A native library that aborts says why in its last lines; more than this only pushes the reason out of the log.
const STDERR_TAIL_BYTES = 4096;
const LOWEST_PRIORITY = 19;

/** How a process ended. */
export interface Exit {
  readonly code: number | undefined;
  /** Name of the signal that ended it, e.g. SIGSEGV. */
  readonly signal: string | undefined;
  /** The end of what it wrote to its standard error. */
  readonly stderrTail: string;
}

export interface Child extends Disposable {
  readonly pid: number;
  /** Sends a structured-cloneable value; bytes are copied. Does nothing once the child has ended. */
  send(message: unknown): void;
  readonly exited: Promise<Exit>;
}

/** `exit code 1` or `signal SIGSEGV`, with the last line of standard error when there is one. */
export function describeExit(exit: Exit): string {
  const how = exit.signal ? `signal ${exit.signal}` : `exit code ${exit.code ?? "unknown"}`;
  const lastLine = exit.stderrTail.trim().split("\n").at(-1);
  return lastLine ? `${how}: ${lastLine}` : how;
}

async function readTail(stream: ReadableStream<Uint8Array>): Promise<string> {
  let tail = new Uint8Array(0);
  for await (const chunk of stream) {
    const joined = Buffer.concat([tail, chunk]);
    tail = new Uint8Array(joined.subarray(Math.max(joined.byteLength - STDERR_TAIL_BYTES, 0)));
  }
  return new TextDecoder().decode(tail);
}

/**
 * Starts this program as a helper: `<program> <subcommand> ...args` when compiled, `bun src/<sourceEntry> ...args`
 * from source. It inherits process.env as it is now.
 */
export function spawnHelper(
  subcommand: string,
  sourceEntry: string,
  options: {
    readonly args?: readonly string[];
    readonly onMessage?: (message: unknown) => void;
  } = {},
): Child {
  const program = compiled
    ? [process.execPath, subcommand]
    : [process.execPath, fileURLToPath(new URL(`../${sourceEntry}`, import.meta.url))];
  const child = Bun.spawn([...program, ...(options.args ?? [])], {
    env: process.env,
    ipc: (message) => options.onMessage?.(message),
    serialization: "advanced",
    // Standard output belongs to the command that runs here (tables, JSON); a helper must not write into it.
    stdio: ["ignore", "ignore", "pipe"],
  });
  const exited = (async (): Promise<Exit> => {
    const stderrTail = await readTail(child.stderr);
    await child.exited;
    return {
      code: child.exitCode ?? undefined,
      signal: child.signalCode === null ? undefined : String(child.signalCode),
      stderrTail,
    };
  })();
  return {
    pid: child.pid,
    exited,
    send: (message) => {
      if (child.exitCode === null && child.signalCode === null) child.send(message);
    },
    [Symbol.dispose]: () => child.kill("SIGKILL"),
  };
}

/**
 * Runs `bun ...args` in `directory` by the Bun that this program contains (BUN_BE_BUN=1 makes the executable just that),
 * on the caller's own input and outputs. Resolves to its exit code, 1 where a signal ended it.
 */
export async function runBun(args: readonly string[], directory: string): Promise<number> {
  const child = Bun.spawn([process.execPath, ...args], {
    cwd: directory,
    env: { ...process.env, BUN_BE_BUN: "1" },
    stdio: ["inherit", "inherit", "inherit"],
  });
  await child.exited;
  return child.exitCode ?? 1;
}

/** A helper's side of spawnHelper: runs `onMessage` on each message in turn and sends back what it returns. */
export function serveParent(onMessage: (message: unknown) => Promise<unknown>): void {
  assertHasParent();
  let turn: Promise<void> = Promise.resolve();
  process.on("message", (message) => {
    turn = turn.then(async () => {
      process.send?.(await onMessage(message));
    });
    turn.catch((thrown) => {
      process.stderr.write(`${messageOf(thrown)}\n`);
      process.exit(1);
    });
  });
  process.on("disconnect", () => process.exit(0));
}

function assertHasParent(): void {
  if (process.send) return;
  process.stderr.write("this is an internal command: the server starts it by itself\n");
  process.exit(2);
}

/** Gives way to every other process: threads that start after this call inherit it. */
export function lowerPriority(): void {
  setPriority(0, LOWEST_PRIORITY);
}

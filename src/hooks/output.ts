// What a hook prints, as lines for the log instead of standard output and error: those are the server's own.
//
// Covers console (also as node:console) and process.stdout and process.stderr. What a bundle writes to the descriptors
// itself, with Bun.write or node:fs, stays its own doing. Used by hook.thread.ts before it imports anything of a bundle.

import { HOOK_TEXT_CHARACTERS_MAX } from "../base/limits.ts";
import type { LogLevel } from "../base/log.ts";

const LEVELS: Readonly<Record<string, LogLevel>> = { debug: "debug", trace: "debug", warn: "warn", error: "error" };

/** Sends what this thread prints from now on to `print`: one text a call, without its line's end, bounded. */
export function captureOutput(print: (level: LogLevel, text: string) => void): void {
  let level: LogLevel = "info";
  const write = (text: unknown, at: LogLevel) => {
    const line = typeof text === "string" ? text : Buffer.from(text as Uint8Array).toString();
    print(at, bounded(line.replace(/\n+$/, "")));
    return true;
  };
  // Node's Console formats; of a stream it needs no more than `write`.
  const stdout = { write: (text: string) => write(text, level) } as unknown as NodeJS.WritableStream;
  const formatting = new console.Console({ stdout, ignoreErrors: false, colorMode: false });
  const replaced = console as unknown as Record<string, unknown>;
  for (const [name, method] of Object.entries(formatting)) {
    if (typeof method !== "function") continue;
    replaced[name] = (...values: unknown[]) => {
      level = LEVELS[name] ?? "info";
      method(...values);
    };
  }
  for (const [stream, at] of [
    ["stdout", "info"],
    ["stderr", "warn"],
  ] as const) {
    const capture = (chunk: unknown, encoding?: unknown, done?: unknown): boolean => {
      const callback = [encoding, done].find((each) => typeof each === "function") as (() => void) | undefined;
      if (callback) queueMicrotask(callback);
      return write(chunk, at);
    };
    process[stream].write = capture as typeof process.stdout.write;
  }
  replaced.write = (...chunks: unknown[]) => {
    for (const chunk of chunks) write(chunk, "info");
  };
}

/** A text that a log line can bear; what is cut is counted. */
export function bounded(text: string): string {
  const cut = text.length - HOOK_TEXT_CHARACTERS_MAX;
  return cut > 0 ? `${text.slice(0, HOOK_TEXT_CHARACTERS_MAX)}... (${cut} more characters)` : text;
}

// The log: one line an event, to standard error; for a person on a terminal, JSON everywhere else.
//
// An event is a short fixed phrase ("listening", "model ready"); what varies goes into fields. A log that cannot be
// written never stops the server: lines are counted and their loss is reported. Used by every room; cli/ configures it.

import { isatty } from "node:tty";
import { systemClock } from "./clock.ts";
import { messageOf } from "./errors.ts";
import { writeDescriptor } from "./files.ts";

export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
export const LOG_FORMATS = ["auto", "text", "json"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];
export type LogFormat = (typeof LOG_FORMATS)[number];

/** What is particular about one event. Undefined fields are left out; an Error becomes its chain of messages. */
export type LogFields = Readonly<Record<string, unknown>>;

export interface Logger {
  debug(event: string, fields?: LogFields): void;
  info(event: string, fields?: LogFields): void;
  warn(event: string, fields?: LogFields): void;
  error(event: string, fields?: LogFields): void;
}

export interface LogOptions {
  /** Events below this level are dropped. */
  readonly level: LogLevel;
  /** `auto`: text on a terminal, else JSON. */
  readonly format: LogFormat;
  /** Where whole lines go; standard error unless a test wants them. */
  readonly write?: ((line: string) => void) | undefined;
  /** Whether a person reads it; asked of standard error unless given. */
  readonly terminal?: boolean | undefined;
  /** Unix milliseconds; the machine's clock unless a test wants another. */
  readonly wallMs?: (() => number) | undefined;
}

const STANDARD_ERROR = 2;
const COLORS: Readonly<Record<LogLevel, string>> = {
  debug: "\x1b[2m",
  info: "\x1b[32m",
  warn: "\x1b[33m",
  error: "\x1b[31m",
};
const RESET = "\x1b[0m";

let linesLost = 0;

/**
 * Writes whole lines to standard error, at once: a process that dies has said why. process.stderr is not used, since
 * it makes a pipe non-blocking and loses what is buffered at exit.
 */
export function writeLogLines(lines: string): void {
  try {
    if (linesLost > 0) {
      writeDescriptor(
        STANDARD_ERROR,
        `${JSON.stringify({ level: "warn", event: "log lines lost", count: linesLost })}\n`,
      );
      linesLost = 0;
    }
    writeDescriptor(STANDARD_ERROR, lines);
  } catch {
    linesLost++; // the reader is gone (EPIPE) or too slow (EAGAIN); the server goes on
  }
}

/** The messages of an error and of its causes, outermost first, none twice. */
export function describeError(thrown: unknown): string {
  const messages: string[] = [];
  for (let at = thrown; at !== undefined && messages.length < 8; at = at instanceof Error ? at.cause : undefined) {
    const message = messageOf(at);
    if (!messages.at(-1)?.includes(message)) messages.push(message);
  }
  return messages.join(": caused by: ");
}

function plain(value: unknown): unknown {
  if (value instanceof Error) return describeError(value);
  if (typeof value === "bigint") return value.toString();
  return value;
}

function jsonLine(level: LogLevel, wallMs: number, event: string, fields: LogFields | undefined): string {
  const line: Record<string, unknown> = { time: new Date(wallMs).toISOString(), level, event };
  for (const key in fields) line[key] = fields[key];
  return JSON.stringify(line, (_key, value) => plain(value));
}

function textValue(value: unknown): string {
  const text =
    typeof value === "object" && value !== null ? JSON.stringify(value, (_key, v) => plain(v)) : String(value);
  return text === "" || /[\s"=]/.test(text) ? JSON.stringify(text) : text;
}

function textLine(
  level: LogLevel,
  wallMs: number,
  event: string,
  fields: LogFields | undefined,
  colors: boolean,
): string {
  const time = new Date(wallMs).toISOString().slice(11, 23);
  const name = level.padEnd(5);
  let line = colors
    ? `${COLORS.debug}${time}${RESET} ${COLORS[level]}${name}${RESET} ${event}`
    : `${time} ${name} ${event}`;
  for (const key in fields) {
    const value = plain(fields[key]);
    if (value !== undefined) line += ` ${key}=${textValue(value)}`;
  }
  return line;
}

/** A logger of its own; most code uses `log`. */
export function createLogger(options: LogOptions): Logger {
  const terminal = options.terminal ?? isatty(STANDARD_ERROR);
  const asText = options.format === "text" || (options.format === "auto" && terminal);
  const colors = terminal && !process.env.NO_COLOR;
  const write = options.write ?? writeLogLines;
  const wallMs = options.wallMs ?? systemClock.wallMs;
  const from = LOG_LEVELS.indexOf(options.level);
  const emit = (level: LogLevel) => {
    if (LOG_LEVELS.indexOf(level) < from) return () => {};
    return (event: string, fields?: LogFields) =>
      write(
        `${asText ? textLine(level, wallMs(), event, fields, colors) : jsonLine(level, wallMs(), event, fields)}\n`,
      );
  };
  return { debug: emit("debug"), info: emit("info"), warn: emit("warn"), error: emit("error") };
}

/** The process's log. */
export const log: Logger = createLogger({ level: "info", format: "auto" });

/** Changes level, format or target of `log`, for every holder of it. */
export function configureLog(options: LogOptions): void {
  Object.assign(log, createLogger(options));
}

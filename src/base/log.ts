// The log: one line an event, to standard error; for a person on a terminal, JSON everywhere else.
//
// An event is a short fixed phrase ("listening", "model ready"); what varies goes into fields, cut to a length that
// nobody can fill a disk with. A log that can't be written never stops the server (log-output.ts). Used by every room;
// cli/ configures it.

import { isatty } from "node:tty";
import { systemClock } from "./clock.ts";
import { messageOf } from "./errors.ts";
import { LOG_ERROR_CHARACTERS_MAX, LOG_STRING_CHARACTERS_MAX } from "./limits.ts";
import { LogOutput } from "./log-output.ts";

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

const standardError = new LogOutput(STANDARD_ERROR);

/** Writes whole lines to standard error, without waiting for its reader. */
export function writeLogLines(lines: string): void {
  standardError.write(lines);
}

/** Before a process ends: waits until the reader of standard error has the lines, for a second at most. */
export function logWritten(): Promise<void> {
  return standardError.written();
}

/** The messages of an error and of its causes, outermost first, none twice, each at most so long. */
export function describeError(thrown: unknown, charactersMax = Number.POSITIVE_INFINITY): string {
  const messages: string[] = [];
  for (let at = thrown; at !== undefined && messages.length < 8; at = at instanceof Error ? at.cause : undefined) {
    const message = cut(messageOf(at), charactersMax);
    if (!messages.some((said) => said.includes(message))) messages.push(message);
  }
  return messages.join(": caused by: ");
}

function cut(text: string, charactersMax: number): string {
  const more = text.length - charactersMax;
  return more > 0 ? `${text.slice(0, charactersMax)}... (${more} more characters)` : text;
}

function plain(value: unknown): unknown {
  if (value instanceof Error) {
    // Each message alone, then all: a hook may throw fifty megabytes.
    return cut(describeError(value, LOG_ERROR_CHARACTERS_MAX), LOG_ERROR_CHARACTERS_MAX);
  }
  if (typeof value === "string") return cut(value, LOG_STRING_CHARACTERS_MAX);
  if (typeof value === "bigint") return value.toString();
  return value;
}

function jsonLine(level: LogLevel, wallMs: number, event: string, fields: LogFields | undefined): string {
  const line: Record<string, unknown> = { time: new Date(wallMs).toISOString(), level, event };
  for (const key in fields) line[key] = fields[key];
  return JSON.stringify(line, (_key, value) => plain(value));
}

function textValue(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((item) => textValue(plain(item))).join(",")}]`;
  const text =
    typeof value === "object" && value !== null ? JSON.stringify(value, (_key, v) => plain(v)) : String(value);
  return text === "" || /[\s"=]/.test(text) ? JSON.stringify(text) : text;
}

/** ` key=value`; the fields of a mapping as ` key.field=value` each, so that it needs no quotes. */
function textField(key: string, field: unknown): string {
  const value = plain(field);
  if (value === undefined) return "";
  const mapping = typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
  const entries = mapping ? Object.entries(value) : [];
  if (entries.length === 0) return ` ${key}=${textValue(value)}`;
  return entries.map(([name, inner]) => textField(`${key}.${name}`, inner)).join("");
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
  for (const key in fields) line += textField(key, fields[key]);
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

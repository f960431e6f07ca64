// Command lines: flags and words to checked arguments, and a command's help, from one table of flags.
//
// Every wrong word is a UsageError (exit 2) that says what was meant or possible; nothing is ignored. Both
// `--flag value` and `--flag=value` work, the latter also for booleans, as Triton's scripts write them.

import { parseArgs } from "node:util";
import { didYouMean } from "../base/nearest.ts";

/** Wrong usage: the message is for the user, the exit code is 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

export interface Flag {
  /** What the value is in help, e.g. `DIR`; undefined for a boolean. */
  readonly value?: string;
  readonly help: string;
  /** May be given several times. */
  readonly multiple?: boolean;
}

/** Flags by name, without the dashes. */
export type Flags = Readonly<Record<string, Flag>>;

export interface Arguments {
  readonly words: readonly string[];
  /** The last value given; undefined if none was. */
  text(flag: string): string | undefined;
  /** All values given, in order. */
  texts(flag: string): readonly string[];
  /** True if given, or given as =true; false if not, or given as =false. */
  has(flag: string): boolean;
  /** Whether the flag was given at all, even as =false. */
  given(flag: string): boolean;
}

/** What one command file exports. */
export interface Command {
  /** After `xlaserver NAME`, e.g. `DIR [options]`. */
  readonly usage: string;
  /** Paragraphs of help below the usage. */
  readonly details?: string;
  readonly flags: Flags;
  /** How many words it takes, at least and at most; none unless given. */
  readonly words?: readonly [min: number, max: number];
  /** Resolves to the exit code. */
  run(args: Arguments): Promise<number>;
}

const TRUE = new Set(["true", "1", "yes", "on"]);
const FALSE = new Set(["false", "0", "no", "off"]);
const HELP = "help";

/** Checked arguments, or "help" if help was asked for. Errors: UsageError for unknown flags and wrong counts. */
export function parseArguments(command: Command, argv: readonly string[]): Arguments | "help" {
  const { flags, words: [wordsMin, wordsMax] = [0, 0] } = command;
  const { tokens } = parseArgs({
    args: [...argv],
    strict: false,
    tokens: true,
    allowPositionals: true,
    options: Object.fromEntries(
      Object.entries(flags).map(([name, flag]) => [name, { type: flag.value ? "string" : "boolean" } as const]),
    ),
  });
  const words: string[] = [];
  const values = new Map<string, string[]>();
  for (const token of tokens) {
    if (token.kind === "positional") words.push(token.value);
    if (token.kind !== "option") continue;
    if (token.name === HELP || token.rawName === "-h") return "help";
    const flag = flags[token.name];
    if (!flag) throw new UsageError(`unknown flag '${token.rawName}'${didYouMean(token.rawName, flagNames(flags))}`);
    values.set(token.name, [...(values.get(token.name) ?? []), checkedValue(flag, token)]);
    if (!flag.multiple && values.get(token.name)!.length > 1) throw new UsageError(`${token.rawName} is given twice`);
  }
  if (words.length < wordsMin) throw new UsageError(`too few arguments: expected ${command.usage}`);
  if (words.length > wordsMax) throw new UsageError(`unexpected argument '${words[wordsMax]}'`);
  return {
    words,
    text: (flag) => values.get(flag)?.at(-1),
    texts: (flag) => values.get(flag) ?? [],
    has: (flag) => values.get(flag)?.at(-1) === "true",
    given: (flag) => values.has(flag),
  };
}

function flagNames(flags: Flags): string[] {
  return [...Object.keys(flags), HELP].map((name) => `--${name}`);
}

interface OptionToken {
  readonly rawName: string;
  readonly value?: string | undefined;
  /** Whether it stood behind `=`. */
  readonly inlineValue?: boolean | undefined;
}

function checkedValue(flag: Flag, { rawName, value, inlineValue }: OptionToken): string {
  if (flag.value) {
    const forgotten = value === undefined || value === "" || (!inlineValue && value.startsWith("--"));
    if (forgotten) throw new UsageError(`${rawName} needs a value: ${rawName} ${flag.value}`);
    return value;
  }
  if (value === undefined || TRUE.has(value.toLowerCase())) return "true";
  if (FALSE.has(value.toLowerCase())) return "false";
  throw new UsageError(`${rawName} is true or false, not '${value}'`);
}

/** The help text of one command. */
export function helpOf(name: string, summary: string, command: Command): string {
  const rows = Object.entries({ ...command.flags, [HELP]: { help: "Show this text." } }).map(
    ([flag, { value, help }]: [string, Flag]) => [`--${flag}${value ? ` ${value}` : ""}`, help] as const,
  );
  const width = Math.max(...rows.map(([left]) => left.length));
  const lines = rows.map(([left, help]) => `  ${left.padEnd(width)}  ${help}`);
  const details = command.details ? `\n${command.details.trim()}\n` : "";
  return `Usage: ${`xlaserver ${name} ${command.usage}`.trimEnd()}\n\n${summary}\n${details}\nFlags:\n${lines.join("\n")}\n`;
}

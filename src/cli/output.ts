// What commands print: tables for a person on a terminal, JSON for a program in a pipe or on demand.
//
// Results go to standard output and nothing else does; messages and logs go to standard error. Used by every command.

import type { Arguments, Flag } from "./arguments.ts";

/** The flag of every command that prints a table. */
export const JSON_FLAG: Flag = { help: "Print JSON, as into a pipe." };

export function wantsJson(args: Arguments): boolean {
  return args.given("json") ? args.has("json") : !process.stdout.isTTY;
}

/** Resolves when the text has left this process, so that an exit afterwards can't cut it off. */
export function print(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(text, (error) => {
      // The reader has seen enough, as `| head` does.
      if (error && (error as { code?: string }).code !== "EPIPE") reject(error);
      else resolve();
    });
  });
}

export function printJson(value: unknown): Promise<void> {
  return print(`${formatJson(value, "")}\n`);
}

/** Indented JSON with lists of scalars on one line each: a tensor's values must not fill the screen. */
function formatJson(value: unknown, indent: string): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const inner = `${indent}  `;
  const block = (open: string, parts: readonly string[], close: string) =>
    parts.length === 0 ? open + close : `${open}\n${inner}${parts.join(`,\n${inner}`)}\n${indent}${close}`;
  if (Array.isArray(value)) {
    if (value.every((item) => typeof item !== "object" || item === null)) return JSON.stringify(value);
    return block(
      "[",
      value.map((item) => formatJson(item, inner)),
      "]",
    );
  }
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  return block(
    "{",
    entries.map(([key, item]) => `${JSON.stringify(key)}: ${formatJson(item, inner)}`),
    "}",
  );
}

/** Rows under their headings, columns two spaces apart. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = headings.map((heading, column) =>
    Math.max(heading.length, ...rows.map((row) => Bun.stringWidth(row[column] ?? ""))),
  );
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) => cell + " ".repeat(Math.max(widths[column]! - Bun.stringWidth(cell), 0)))
      .join("  ")
      .trimEnd();
  return `${[headings, ...rows].map(line).join("\n")}\n`;
}

/** Bytes for a person: 91.3 MB. */
export function formatBytes(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return unit === 0 ? `${bytes} B` : `${value.toFixed(1)} ${units[unit]}`;
}

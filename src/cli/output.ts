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
  return print(
    `${JSON.stringify(value, (_key, inner) => (typeof inner === "bigint" ? inner.toString() : inner), 2)}\n`,
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

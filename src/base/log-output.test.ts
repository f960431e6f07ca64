// A log whose reader stalls or goes away neither stops the process nor loses count of what was not written.

import { afterEach, beforeEach, expect, test } from "bun:test";
import { closeSync, constants, mkdtempSync, openSync, readFileSync, readSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LogOutput } from "./log-output.ts";

let directory: string;
let pipe: string;
const open: number[] = [];

/** Opens the pipe; the reader does not wait, the writer is blocking as an inherited descriptor is. */
function openPipe(flags: number): number {
  const descriptor = openSync(pipe, flags);
  open.push(descriptor);
  return descriptor;
}

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "xlaserver-log-"));
  pipe = join(directory, "pipe");
  Bun.spawnSync(["mkfifo", pipe]);
});
afterEach(() => {
  for (const descriptor of open.splice(0)) closeSync(descriptor);
  rmSync(directory, { recursive: true });
});

const reader = () => openPipe(constants.O_RDONLY | constants.O_NONBLOCK);
const writer = () => openPipe(constants.O_WRONLY);

function readAll(descriptor: number): string {
  const chunk = Buffer.alloc(1 << 20);
  let text = "";
  try {
    for (let count = 1; count > 0; text += chunk.toString("latin1", 0, count)) {
      count = readSync(descriptor, chunk, 0, chunk.byteLength, null);
    }
  } catch (thrown) {
    if ((thrown as { code?: string }).code !== "EAGAIN") throw thrown;
  }
  return text;
}

async function readUntil(descriptor: number, ending: string): Promise<string> {
  let text = "";
  while (!text.endsWith(ending)) {
    text += readAll(descriptor);
    await new Promise((resolve) => setImmediate(resolve));
  }
  return text;
}

test("a line is with its reader before write() returns", () => {
  const read = reader();
  const output = new LogOutput(writer());
  for (const line of ["first\n", "second\n"]) {
    output.write(line);
    expect(readAll(read)).toBe(line);
  }
});

test("a reader that stalls stops nobody, gets the lines in order later, and learns what was lost", async () => {
  const read = reader();
  const output = new LogOutput(writer());
  const total = 4000;
  for (let index = 0; index < total; index++) output.write(`${index} ${"x".repeat(1000)}\n`);
  const drained = readUntil(read, "last\n");
  await output.written();
  output.write("last\n");
  const lines = (await drained).trimEnd().split("\n");
  const kept = lines.filter((line) => line.endsWith("x")).map((line) => Number.parseInt(line, 10));
  expect(kept).toEqual(kept.map((_, index) => index));
  const loss = lines.filter((line) => line.includes("log lines lost")).map((line) => JSON.parse(line));
  expect(loss).toEqual([{ level: "warn", event: "log lines lost", count: total - kept.length }]);
  expect(kept.length).toBeGreaterThan(900);
});

test("a process does not wait long for a reader that never comes back", async () => {
  reader();
  const output = new LogOutput(writer());
  output.write("x".repeat(1e6));
  await output.written();
});

test("a reader that has gone costs the lines, and the next one hears how many", async () => {
  const first = reader();
  const output = new LogOutput(writer());
  output.write("heard\n");
  expect(readAll(first)).toBe("heard\n");
  closeSync(open.splice(open.indexOf(first), 1)[0]!);
  output.write("lost\n");
  output.write("lost\nlost\n");
  const second = reader();
  output.write("back\n");
  expect(await readUntil(second, "back\n")).toBe('{"level":"warn","event":"log lines lost","count":3}\nback\n');
});

test("the shared pipe stays blocking for those who share it", () => {
  reader();
  const descriptor = writer();
  new LogOutput(descriptor).write("line\n");
  const flags = /flags:\s*(\d+)/.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, "latin1"))![1]!;
  expect(Number.parseInt(flags, 8) & constants.O_NONBLOCK).toBe(0);
});

test("a file takes all lines at once", () => {
  const file = join(directory, "log");
  const descriptor = openSync(file, "w");
  open.push(descriptor);
  const output = new LogOutput(descriptor);
  output.write("x".repeat(2e6));
  output.write("\nlast\n");
  expect(readFileSync(file, "latin1")).toEndWith("x\nlast\n");
});

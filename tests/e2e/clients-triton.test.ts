// tritonclient, Triton's own Python client, against the running server: what clients-triton.py tries, case by case.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { type ClientServer, START_MS_MAX, startClientServer } from "../support/client-server.ts";
import { findTool } from "../support/tools.ts";

const CASES = [
  "health",
  "metadata",
  "repository",
  "statistics",
  "simple",
  "every_dtype",
  "strings",
  "parameters_that_are_ignored",
  "deadlines",
  "many_at_once",
  "compression",
  "mistakes",
  "200_megabytes",
];

const python = findTool("python");
if ("missing" in python) console.log(`tritonclient: skipped: ${python.missing}`);

let server: ClientServer;
let outcomes: Record<string, string> = {};

beforeAll(async () => {
  if ("missing" in python) return;
  server = await startClientServer();
  const program = join(import.meta.dir, "clients-triton.py");
  const child = Bun.spawn([python.path, program, server.worker.address], { stdio: ["ignore", "pipe", "inherit"] });
  outcomes = (await new Response(child.stdout).json()) as Record<string, string>;
}, START_MS_MAX);
afterAll(() => server?.[Symbol.asyncDispose]());

test.skipIf("missing" in python).each(CASES)("tritonclient: %s", (name) => {
  expect(outcomes[`case_${name}`]).toBe("passed");
});

test.skipIf("missing" in python)("every case of the program is listed here", () => {
  expect(Object.keys(outcomes).sort()).toEqual(CASES.map((name) => `case_${name}`).sort());
});

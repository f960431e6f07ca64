// The stock clients and checkers that the set-up brought, for tests that run them.
//
// A tool may be missing on a machine that could not fetch it: such a test skips, with the reason, which the set-up
// wrote down. Used by contract and e2e tests.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "..", "..");

/** Where each tool lies once the set-up has brought it. `python` has tritonclient, numpy and tokenizers. */
const TOOLS = {
  python: ".deps/venv/bin/python",
  h2spec: ".deps/go/bin/h2spec",
  grpcurl: ".deps/go/bin/grpcurl",
  perfAnalyzer: ".deps/venv/bin/perf_analyzer",
} as const;

export type ToolName = keyof typeof TOOLS;

/** The absolute path of a tool, or the reason why it is not there. */
export function findTool(name: ToolName): { path: string } | { missing: string } {
  const path = join(ROOT, TOOLS[name]);
  if (existsSync(path)) return { path };
  const reasons = join(ROOT, ".deps", "missing.json");
  const known = existsSync(reasons) ? JSON.parse(readFileSync(reasons, "utf8"))[name] : undefined;
  return { missing: known ?? "the set-up of npm test brings it" };
}

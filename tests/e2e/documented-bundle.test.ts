// The bundle that docs/bundles.md builds by hand, taken from its text word for word: written, tested, validated, run.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { serverCommand } from "../support/worker.ts";

const TIMEOUT_MS = 120_000;
const DOCUMENT = join(import.meta.dir, "..", "..", "docs", "bundles.md");
/** A paragraph that begins with a file's name, and the block under it: the file's content. */
const FILE = /^`((?:models\/mix\/)?[\w.]+)`[^\n]*\n(?:[^\n`][^\n]*\n)*\n```\w+\n(.*?)```\n/gms;

const directory = mkdtempSync(join(tmpdir(), "xlaserver-documented-"));
afterAll(() => rmSync(directory, { recursive: true }));

async function run(...argv: string[]) {
  const child = Bun.spawn(argv, {
    cwd: directory,
    env: { ...process.env, XLASERVER_CACHE_DIR: join(directory, "cache") },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  return { code: await child.exited, stdout, stderr };
}

beforeAll(async () => {
  const files = [...readFileSync(DOCUMENT, "utf8").matchAll(FILE)];
  expect(files.map(([, name]) => name)).toEqual([
    "models/mix/manifest.yaml",
    "models/mix/model.b1.mlir",
    "models/mix/model.b4.mlir",
    "weights.py",
    "models/mix/model.ts",
    "models/mix/model.test.ts",
  ]);
  for (const [, name = "", content = ""] of files) {
    mkdirSync(dirname(join(directory, name)), { recursive: true });
    writeFileSync(join(directory, name), content);
  }
  expect(await run("python3", "weights.py", "models/mix/weights.safetensors")).toMatchObject({ code: 0 });
});

test(
  "the documented bundle is good, without a warning",
  async () => {
    const { code, stdout } = await run(...serverCommand(), "validate", "models", "--json");
    expect(JSON.parse(stdout)).toEqual([{ name: "mix", ok: true, reason: "", warnings: [] }]);
    expect(code).toBe(0);
  },
  TIMEOUT_MS,
);

test(
  "its own tests pass",
  async () => {
    const { code, stderr } = await run(...serverCommand(), "test", "models/mix");
    expect(stderr).toContain("2 pass");
    expect(code).toBe(0);
  },
  TIMEOUT_MS,
);

test(
  "it gives what the text says",
  async () => {
    const infer = [...serverCommand(), "infer", "--bundle", "models/mix", "--input"];
    const { stdout } = await run(...infer, "values=[[1, 1, 1], [100, 0, 0]]");
    expect(JSON.parse(stdout).outputs).toEqual([
      { name: "sums", datatype: "FP32", shape: [2, 2], data: [6, 15, 100, 400] },
    ]);
    const refused = await run(...infer, 'values=[["NaN", 1, 1]]');
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining("expected finite numbers") });
  },
  TIMEOUT_MS,
);

// The commands of the executable (of the source where it isn't built), tried as a user would: bundles good and bad, a
// server, the plugin, the notices.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EXAMPLES_DIRECTORY, tempRepository } from "../support/bundles.ts";
import { serverCommand, startWorker, type TestWorker } from "../support/worker.ts";

const TIMEOUT_MS = 120_000;
const COMPILED = serverCommand().length === 1;
const ROW = JSON.stringify(Array.from({ length: 16 }, (_, index) => index));

const cache = mkdtempSync(join(tmpdir(), "xlaserver-commands-"));
afterAll(() => rmSync(cache, { recursive: true }));

async function run(...argv: string[]) {
  const child = Bun.spawn([...serverCommand(), ...argv], {
    env: { ...process.env, XLASERVER_CACHE_DIR: cache },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  return { code: await child.exited, stdout, stderr };
}

const bundle = (name: string) => join(EXAMPLES_DIRECTORY, name);
const simpleInputs = ["--input", `INPUT0=${ROW}`, "--input", `INPUT1=[${ROW}]`];
const doubled = {
  name: "OUTPUT0",
  datatype: "INT32",
  shape: [1, 16],
  data: Array.from({ length: 16 }, (_, i) => 2 * i),
};

test(
  "infer --bundle runs a bundle in this process",
  async () => {
    const { code, stdout } = await run("infer", "--bundle", bundle("simple"), ...simpleInputs, "--output", "OUTPUT0");
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({ model_name: "simple", outputs: [doubled] });
  },
  TIMEOUT_MS,
);

test(
  "inspect shows signature, weights and memory",
  async () => {
    const { code, stdout } = await run("inspect", bundle("dense_v2"));
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      name: "dense_v2",
      formatVersion: "2.0",
      weightTensors: 2,
      modules: [{ batchSize: 1 }, { batchSize: 4 }],
      device: { platform: "cpu" },
    });
  },
  TIMEOUT_MS,
);

test(
  "validate judges each bundle, files and signatures, and fails if one is bad",
  async () => {
    using repository = tempRepository({
      good: { from: "simple" },
      unknown_key: { from: "simple", manifest: { executable_input: [] } },
      broken: { from: "simple", files: { "model.b1.mlir": "module {" } },
    });
    const { code, stdout } = await run("validate", repository.directory);
    expect(code).toBe(1);
    const verdicts = JSON.parse(stdout) as { name: string; ok: boolean; reason: string }[];
    expect(verdicts.map(({ name, ok }) => [name, ok])).toEqual([
      ["broken", false],
      ["good", true],
      ["unknown_key", false],
    ]);
    expect(verdicts[2]!.reason).toContain("executable_inputs");
    const filesOnly = await run("validate", "--files-only", repository.bundle("good"));
    expect(filesOnly).toMatchObject({ code: 0 });
  },
  TIMEOUT_MS,
);

test(
  "test runs a bundle's own tests, and fails with them",
  async () => {
    using repository = tempRepository({
      hooked: {
        files: {
          "model.ts": `import { registerModel } from "xlaserver";\nexport default registerModel({ preprocess: (x) => x });`,
          "good.test.ts": `import { expect, test } from "bun:test";\nimport hooks from "./model.ts";
            test("preprocess", () => expect(hooks.preprocess([])).toEqual([]));`,
        },
      },
    });
    const directory = repository.bundle("hooked");
    const good = await run("test", directory);
    expect(good).toMatchObject({ code: 0, stderr: expect.stringContaining("1 pass") });
    const failing = `import { expect, test } from "bun:test"; test("wrong", () => expect(1).toBe(2));`;
    repository.put("hooked", { files: { "bad.test.ts": failing } });
    expect((await run("test", directory)).code).toBe(1);
  },
  TIMEOUT_MS,
);

test(
  "plugins lists what can be used, and says why something can't",
  async () => {
    const { code, stdout } = await run("plugins", "--plugin", join(EXAMPLES_DIRECTORY, "simple", "manifest.yaml"));
    expect(code).toBe(0);
    const rows = JSON.parse(stdout) as { origin: string; rejected?: string; facts?: { apiVersion: string } }[];
    expect(rows[0]).toMatchObject({ origin: "option", rejected: expect.stringContaining("not a shared library") });
    const usable = rows.find(({ rejected }) => rejected === undefined);
    expect(usable?.facts?.apiVersion).toMatch(/^0\.\d+$/);
    if (COMPILED) expect(rows.map(({ origin }) => origin)).toContain("embedded");
  },
  TIMEOUT_MS,
);

test("licenses names everything that the executable contains", async () => {
  const { code, stdout } = await run("licenses");
  expect(code).toBe(0);
  const embedded = ["Bun 1.", "JavaScriptCore", "lammps-jax-pjrt-cpu", "@bufbuild/protobuf", "yaml", "valibot"];
  for (const name of ["Apache License", ...(COMPILED ? embedded : [])]) expect(stdout).toContain(name);
});

test.each([
  ["missing", "no/such/plugin.so"],
  ["not a plugin", join(EXAMPLES_DIRECTORY, "simple", "manifest.yaml")],
])("a plugin that is %s: one clear line and exit 1", async (_, plugin) => {
  const { code, stderr } = await run("inspect", bundle("simple"), "--plugin", plugin);
  expect(code).toBe(1);
  expect(stderr.trim().split("\n")).toHaveLength(1);
  expect(stderr).toContain("no PJRT plugin");
});

{
  let worker: TestWorker;
  beforeAll(async () => {
    worker = await startWorker({ repository: EXAMPLES_DIRECTORY, environment: { XLASERVER_MODELS_INCLUDE: "simple" } });
  }, TIMEOUT_MS);
  afterAll(() => worker?.[Symbol.asyncDispose]());

  test("infer and ready talk to a server", async () => {
    expect(await run("ready", "--server", worker.address)).toMatchObject({ code: 0, stdout: "ready\n" });
    const { code, stdout } = await run("infer", "simple", "--server", worker.address, ...simpleInputs);
    expect(code).toBe(0);
    expect(JSON.parse(stdout).outputs[0]).toEqual(doubled);
  });

  test("a server's refusal is exit 1 with its status, a wrong value exit 2 before anything is sent", async () => {
    const unknown = await run("infer", "nope", "--server", worker.address, "--input", "x=1");
    expect(unknown).toMatchObject({ code: 1, stderr: expect.stringContaining("NOT_FOUND: unknown model 'nope'") });
    const wrong = await run(
      "infer",
      "simple",
      "--server",
      worker.address,
      "--input",
      "INPUT0=1.5",
      "--input",
      "INPUT1=1",
    );
    expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining("expected an integer") });
  });
}

// What a machine does to a server: plugins that are none, ports that are taken, settings that are wrong, caches that are
// damaged, deaths in the middle of a first start. Each has one clear line and an exit code, or is got over.

import { afterAll, describe, expect, test } from "bun:test";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { tempRepository } from "../support/bundles.ts";
import { tensor } from "../support/client-server.ts";
import { until } from "../support/gates.ts";
import { kserveClient } from "../support/kserve-client.ts";
import { testPlugin } from "../support/plugins.ts";
import { type LogLine, spawnServer, startWorker, type WorkerOptions } from "../support/worker.ts";

const START_MS_MAX = 180_000;

const opened = new DisposableStack();
const folder = opened.adopt(mkdtempSync(join(tmpdir(), "xlaserver-faults-")), (path) =>
  rmSync(path, { recursive: true, force: true }),
);
const { directory: repository } = opened.use(
  tempRepository({
    simple: { from: "simple" },
    dense_v2: { from: "dense_v2" },
    identity_fp32: { from: "identity_fp32" },
  }),
);
afterAll(() => opened.dispose());

/** Writes a file of the test's own and gives its path. */
function file(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

/** A start that must fail: its exit code, and all that a person would read of the reason. */
async function failedStart(options: Partial<WorkerOptions>): Promise<{ exit: number | string; lines: string[] }> {
  await using server = spawnServer({ repository, ...options });
  const exit = await server.exited;
  const wanted = ({ event, level }: LogLine) => event === "text" || level === "error" || level === "warn";
  const lines = server.log.filter(wanted).map((line) => String(line.text ?? `${line.event}: ${line.error}`));
  return { exit, lines };
}

/** Both models answer rightly on the server at `address`. */
async function expectRightResults(address: string): Promise<void> {
  using client = kserveClient(address);
  const x = { ...tensor("x", "FP32", 2, 3), contents: { fp32Contents: [1, 10, 100, 0, 0, 0] } };
  const dense = await client.call("modelInfer", { modelName: "dense_v2", inputs: [x] });
  expect([...new Float32Array(dense.rawOutputContents[0]!.slice().buffer)]).toEqual([531.5, 642.25, 0.5, 0.25]);
  const ones = new Uint8Array(new Int32Array(3 * 16).fill(21).buffer);
  const inputs = [tensor("INPUT0", "INT32", 3, 16), tensor("INPUT1", "INT32", 3, 16)];
  const simple = await client.call("modelInfer", { modelName: "simple", inputs, rawInputContents: [ones, ones] });
  const [sum, difference] = simple.rawOutputContents.map((bytes) => new Int32Array(bytes.slice().buffer));
  expect(sum).toEqual(new Int32Array(3 * 16).fill(42));
  expect(difference).toEqual(new Int32Array(3 * 16));
}

// ---- plugins

const compiler = Bun.which("gcc") ?? Bun.which("cc");
if (!compiler) console.log("plugins of other versions skipped: no C compiler (gcc or cc) on PATH");

/** A shared library whose GetPjrtApi gives a table of this version, or none. */
function madeUpPlugin(name: string, version: string | undefined): string {
  const source = file(
    `${name}.c`,
    `#include <stddef.h>
struct { size_t size; void* next; struct { size_t size; void* next; int major, minor; } version; void* functions[150]; }
api = { sizeof api, NULL, { sizeof api.version, NULL, ${version ?? "0, 0"} }, { NULL } };
void* GetPjrtApi(void) { return ${version ? "&api" : "NULL"}; }
`,
  );
  const path = join(folder, `${name}.so`);
  const made = Bun.spawnSync([compiler!, "-shared", "-fPIC", "-o", path, source]);
  if (made.exitCode !== 0) throw new Error(made.stderr.toString());
  return path;
}

async function expectNoPlugin(plugin: string, says: RegExp): Promise<void> {
  const { exit, lines } = await failedStart({ flags: ["--plugin", plugin] });
  expect(exit).toBe(1);
  expect(lines).toEqual([expect.stringMatching(says)]);
  expect(lines[0]).toContain(plugin);
  expect(lines[0]).not.toContain("\n");
}

describe("plugins", () => {
  test("one that is missing", () => expectNoPlugin("/nowhere.so", /no such file/));
  test("a directory", () => expectNoPlugin(folder, /not a shared library|directory/));
  test("an empty file", () => expectNoPlugin(file("empty.so", ""), /not a shared library/));
  test("a text file", () => expectNoPlugin(file("text.so", "#!/bin/sh\n"), /not a shared library/));
  test("a program", () => expectNoPlugin(process.execPath, /not a shared library|GetPjrtApi/));

  const libc = readFileSync("/proc/self/maps", "utf8").match(/\/\S+\/libc\.so\.6/)?.[0];
  test.skipIf(!libc)("a library that is no plugin", () => expectNoPlugin(libc!, /GetPjrtApi/));

  test("a truncated one", async () => {
    const plugin = await testPlugin("lammps");
    if (plugin.skip) return console.log(`skipped: ${plugin.skip}`);
    const path = file("truncated.so", new Uint8Array(await Bun.file(plugin.path!).slice(0, 20_000_000).arrayBuffer()));
    await expectNoPlugin(path, /truncated/);
  });

  test.skipIf(!compiler)("an old one", () =>
    expectNoPlugin(
      madeUpPlugin("old", "0, 40"),
      /speaks PJRT C API 0\.40, xlaserver needs version 0\.81 or a newer 0\.x/,
    ),
  );
  test.skipIf(!compiler)("one of another major version", () =>
    expectNoPlugin(madeUpPlugin("other", "1, 2"), /speaks PJRT C API 1\.2/),
  );
  test.skipIf(!compiler)("one without a table", () =>
    expectNoPlugin(madeUpPlugin("null", undefined), /GetPjrtApi returned null/),
  );
});

// ---- settings

describe("settings and ports", () => {
  test.each(["grpcPort", "metricsPort"] as const)("a %s that is taken", async (port) => {
    using taken = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
    const { exit, lines } = await failedStart({ [port]: taken.port });
    expect(exit).toBe(1);
    const service = port === "grpcPort" ? "grpc" : "metrics";
    const says = `cannot start: cannot listen on 127.0.0.1:${taken.port} (${service}): port ${taken.port} is in use`;
    expect(lines).toEqual([expect.stringContaining(says)]);
  });

  test("an address of another machine", async () => {
    const { exit, lines } = await failedStart({ flags: ["--grpc-address", "203.0.113.7"] });
    expect(exit).toBe(1);
    const says = "cannot start: cannot listen on 203.0.113.7:0 (grpc): 203.0.113.7 is no address of this machine";
    expect(lines).toEqual([expect.stringContaining(says)]);
  });

  test.each<[string, Partial<WorkerOptions>, RegExp]>([
    ["an unknown flag", { flags: ["--grpc-prot", "1"] }, /--grpc-prot.*--grpc-port/],
    ["a port that is none", { grpcPort: 70_000 }, /--grpc-port: .*65535.*70000/],
    ["a number that is none", { metricsPort: Number.NaN }, /--metrics-port: .*NaN/],
    ["an unknown backend", { flags: ["--backend", "tpu"] }, /--backend: .*cpu.*tpu/],
    [
      "a variable of another kind",
      { environment: { XLASERVER_HOOKS_THREADS: "many" } },
      /XLASERVER_HOOKS_THREADS.*many/,
    ],
    [
      "a node file with several faults",
      { flags: ["--config", file("node.yaml", "global:\n  endpoints: {prot: 1}\n  strict: perhaps\n")] },
      /prot.*port(.|\n)*strict.*perhaps/,
    ],
    ["a model repository that is missing", { repository: join(folder, "nowhere") }, /existing directory.*nowhere/],
    ["a node file that is missing", { flags: ["--config", join(folder, "none.yaml")] }, /none\.yaml/],
    ["a node file that is not YAML", { flags: ["--config", file("broken.yaml", "a: [b\nc: }")] }, /broken\.yaml/],
  ])("%s", async (_name, options, says) => {
    const { exit, lines } = await failedStart(options);
    expect(exit).toBe(2);
    expect(lines.join("\n")).toMatch(says);
    expect(lines.join("\n")).not.toMatch(/^\s+at /m);
  });

  test.each([
    ["a file", file("cache", "")],
    ["below a file", join(file("cache", ""), "inner")],
    ["where nobody may write", "/proc/xlaserver-cache"],
  ])("a cache directory that is %s", async (_name, cacheDirectory) => {
    const { exit, lines } = await failedStart({ cacheDirectory });
    expect(exit).toBe(1);
    expect(lines).toEqual([expect.stringContaining(cacheDirectory)]);
    expect(lines[0]).toStartWith("cannot start: ");
  });
});

// ---- caches

const cacheDirectory = join(folder, "warm");
const entries = (kind: string, directory = cacheDirectory) =>
  existsSync(join(directory, kind)) ? readdirSync(join(directory, kind)) : [];

const executables = () => entries("executables").filter((name) => name.endsWith(".executable"));

const start = () => startWorker({ repository, cacheDirectory });

test(
  "killed while it extracts, compiles and builds images, a server starts again as if nothing had been",
  async () => {
    const moments = [
      () => existsSync(cacheDirectory),
      // From source there is nothing to extract.
      () => entries("plugins").length > 0 || existsSync(join(cacheDirectory, "executables")),
      () => entries("executables").length > 0,
      () => executables().length > 2,
      () => entries("images").length > 0,
    ];
    for (const moment of moments) {
      await using server = spawnServer({ repository, cacheDirectory });
      await until(moment);
      server.kill("SIGKILL");
      expect(await server.exited).toBe("SIGKILL");
    }
    await using server = await start();
    expect(server.log.filter(({ level }) => level === "error" || level === "warn")).toEqual([]);
    await expectRightResults(server.address);
  },
  START_MS_MAX,
);

test(
  "damaged executables in the cache are compiled anew, with a line in the log",
  async () => {
    const names = executables();
    expect(names.length).toBe(7);
    const paths = names.map((name) => join(cacheDirectory, "executables", name));
    const flip = (path: string, at: (length: number) => number) => {
      const bytes = readFileSync(path);
      bytes[at(bytes.length)]! ^= 0x10;
      writeFileSync(path, bytes);
    };
    flip(paths[0]!, (length) => length - 1000);
    flip(paths[1]!, () => 120);
    truncateSync(paths[2]!, 5000);
    truncateSync(paths[3]!, 0);
    copyFileSync(paths[6]!, paths[4]!);
    writeFileSync(paths[5]!, new Uint8Array(10_000).fill(0x41));
    {
      await using server = await start();
      await expectRightResults(server.address);
      const warnings = server.log.filter(({ level }) => level === "warn");
      expect(warnings.map(({ event }) => event)).toEqual(
        new Array(6).fill("cached executable unusable, compiling anew"),
      );
      for (const { module, reason } of warnings) {
        expect(module).toMatch(/^(simple|dense_v2|identity_fp32)\/model\.b\d+\.mlir$/);
        expect(reason).toMatch(/checksum|another key|not a cached executable/);
      }
    }
    await using repaired = await start();
    expect(repaired.log.filter(({ level }) => level === "warn")).toEqual([]);
  },
  START_MS_MAX,
);

test(
  "entries that are directories, records that are nonsense, an image cut short: all are got over",
  async () => {
    const [name] = executables();
    rmSync(join(cacheDirectory, "executables", name!));
    mkdirSync(join(cacheDirectory, "executables", name!));
    for (const record of entries("digests")) writeFileSync(join(cacheDirectory, "digests", record), "{");
    for (const cost of entries("executables").filter((each) => each.endsWith(".cost"))) {
      writeFileSync(join(cacheDirectory, "executables", cost), "soon");
    }
    const images = entries("images");
    expect(images.length).toBeGreaterThan(0);
    for (const image of images) truncateSync(join(cacheDirectory, "images", image), 10);
    for (const plugin of entries("plugins")) truncateSync(join(cacheDirectory, "plugins", plugin), 1_000_000);
    await using server = await start();
    await expectRightResults(server.address);
  },
  START_MS_MAX,
);

test(
  "two servers on one cold cache both start, and XLA_FLAGS that XLA doesn't know end neither of them",
  async () => {
    const options = {
      repository,
      cacheDirectory: join(folder, "cold"),
      environment: { XLA_FLAGS: "--xla_no_such_flag=1" },
    };
    const servers = await Promise.all([startWorker(options), startWorker(options)]);
    for (const server of servers) {
      await using owned = server;
      await expectRightResults(owned.address);
      const [warning] = owned.log.filter(({ level }) => level === "warn");
      expect(warning).toMatchObject({
        event: expect.stringContaining("XLA_FLAGS is ignored"),
        flags: "--xla_no_such_flag=1",
      });
    }
  },
  START_MS_MAX,
);

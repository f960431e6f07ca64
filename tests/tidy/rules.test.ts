// Each house rule refuses what it must and lets pass what it may: the rules are run on small texts.

import { describe, expect, test } from "bun:test";
import { DOOR_PATHS, oneServerError, sideEffectDoors } from "./doors.ts";
import { bundleImports, importCycles, importLaw, importsOf, literalImports, threadEntries } from "./imports.ts";
import { source, type Violation } from "./source.ts";
import { headers, names, REGISTRY_HOSTS, sizeDistribution, sizes, words } from "./texts.ts";

const lines = (violations: Violation[]) => violations.map(({ line }) => line);
const repeat = (line: string, count: number) => `${line}\n`.repeat(count);

describe("import law", () => {
  const law = (path: string, text: string) => lines(importLaw(source(path, text)));

  test("its own room and lower floors pass", () => {
    expect(law("src/net/frames.ts", 'import { a } from "./hpack.ts";\nimport { b } from "../base/errors.ts";')).toEqual(
      [],
    );
    expect(law("src/tensor/shape.ts", 'import { a } from "../../ffi/memory.ts";')).toEqual([]);
    expect(law("src/device/pjrt.ts", 'import { a } from "../../ffi/pjrt/api.ts";\nimport "node:path";')).toEqual([]);
    expect(law("src/hooks/hook.thread.ts", 'import { a } from "../api.ts";')).toEqual([]);
    expect(law("src/main.ts", 'import { a } from "./cli/serve.ts";')).toEqual([]);
  });

  test("a sibling room is refused, whatever the form of the import", () => {
    const sibling = '"../bundle/load.ts"';
    expect(law("src/net/a.ts", `import { a } from ${sibling};`)).toEqual([1]);
    expect(law("src/net/a.ts", `import type { A } from ${sibling};`)).toEqual([1]);
    expect(law("src/net/a.ts", `import ${sibling};`)).toEqual([1]);
    expect(law("src/net/a.ts", `export { a } from ${sibling};`)).toEqual([1]);
    expect(law("src/net/a.ts", `export * from ${sibling};`)).toEqual([1]);
    expect(law("src/net/a.ts", `const a = await import(${sibling});`)).toEqual([1]);
    expect(law("src/net/a.ts", `let a: import(${sibling}).A;`)).toEqual([1]);
    expect(law("src/net/a.ts", `\nconst a = require(${sibling});`)).toEqual([2]);
  });

  test("up is refused, on the ground too", () => {
    expect(law("src/base/errors.ts", 'import type { A } from "../tensor/dtype.ts";')).toEqual([1]);
    expect(law("ffi/memory.ts", 'import { A } from "../src/tensor/dtype.ts";')).toEqual([1]);
    expect(law("src/device/fake.ts", 'import { A } from "../model/registry.ts";')).toEqual([1]);
    expect(law("src/call/call.ts", 'import { A } from "../metrics/text.ts";')).toEqual([1]);
  });

  test("tests are free; a test is nobody's import; code outside the house is not importable", () => {
    expect(law("src/net/a.test.ts", 'import { a } from "../bundle/load.ts";')).toEqual([]);
    expect(law("src/net/a.ts", 'import { a } from "../base/errors.test.ts";')).toEqual([1]);
    expect(law("src/net/a.ts", 'import { a } from "../../tests/support/bundles.ts";')).toEqual([1]);
    expect(law("src/cli/licenses.ts", 'import text from "../../LICENSE.txt" with { type: "text" };')).toEqual([]);
  });

  test("an unknown room and a missing ending are refused", () => {
    expect(law("src/stuff/a.ts", "")).toEqual([0]);
    expect(law("src/net/a.ts", 'import { a } from "./frames";')).toEqual([1]);
  });

  test("a computed import is refused outside hooks/", () => {
    expect(lines(literalImports(source("src/net/a.ts", "await import(path);")))).toEqual([1]);
    expect(lines(literalImports(source("src/hooks/hook.thread.ts", "await import(path);")))).toEqual([]);
  });

  test("type-only imports are told apart", () => {
    const file = source("src/net/a.ts", 'import type { A } from "./b.ts";\nimport { c } from "./d.ts";');
    expect(importsOf(file).map(({ typeOnly }) => typeOnly)).toEqual([true, false]);
  });

  test("a bundle imports itself, xlaserver and nothing else", () => {
    const at = (text: string) => lines(bundleImports(source("bundles/minilm/model.ts", text)));
    expect(
      at('import { A } from "xlaserver";\nimport { b } from "xlaserver/text";\nimport { c } from "./pool.ts";'),
    ).toEqual([]);
    expect(at('import { a } from "../../src/api.ts";\nimport { b } from "valibot";')).toEqual([1, 2]);
  });
});

test("an import cycle is refused, one of types too", () => {
  const files = [
    source("src/net/a.ts", 'import { b } from "./b.ts";'),
    source("src/net/b.ts", 'import type { c } from "./c.ts";'),
    source("src/net/c.ts", 'import { a } from "./a.ts";'),
    source("src/net/d.ts", 'import { a } from "./a.ts";'),
  ];
  const found = importCycles(files);
  expect(found).toHaveLength(1);
  expect(found[0]!.message).toContain("src/net/a.ts -> src/net/b.ts -> src/net/c.ts -> src/net/a.ts");
});

test("a thread's entry is spawned by its name, never imported", () => {
  const entry = source("src/hooks/hook.thread.ts", "");
  const spawner = source("src/hooks/pool.ts", 'spawnThread("hooks/hook.thread");');
  expect(threadEntries([entry, spawner])).toEqual([]);
  expect(lines(threadEntries([entry]))).toEqual([0]);
  expect(lines(threadEntries([entry, spawner, source("src/hooks/b.ts", 'spawnThread("hooks/none.thread");')]))).toEqual(
    [1],
  );
  expect(lines(threadEntries([entry, spawner, source("src/hooks/b.ts", "spawnThread(name);")]))).toEqual([1]);
  expect(lines(threadEntries([entry, spawner, source("src/hooks/b.ts", 'import "./hook.thread.ts";')]))).toEqual([1]);
  expect(
    threadEntries([entry, spawner, source("src/hooks/b.ts", 'import type { M } from "./hook.thread.ts";')]),
  ).toEqual([]);
});

describe("doors", () => {
  const at = (path: string, text: string) => lines(sideEffectDoors(source(path, text)));

  test.each([
    ["src/base/files.ts", 'import { readFileSync } from "node:fs";'],
    ["src/base/files.ts", 'import { readFile } from "node:fs/promises";'],
    ["src/base/files.ts", "Bun.file(path);"],
    ["src/base/files.ts", "const map = Bun.mmap(path);"],
    ["src/base/files.ts", 'import { file } from "bun";'],
    ["src/base/files.ts", 'const fs = await import("node:fs");'],
    ["src/base/threads.ts", "new Worker(url);"],
    ["src/base/threads.ts", 'import { parentPort } from "node:worker_threads";'],
    ["src/hooks/hook.thread.ts", 'import { parentPort } from "node:worker_threads";'],
    ["src/base/processes.ts", 'Bun.spawn(["ls"]);'],
    ["src/base/processes.ts", 'import { spawn } from "node:child_process";'],
    ["ffi/library.ts", 'import { dlopen } from "bun:ffi";'],
    ["src/net/server.ts", "Bun.listen({});"],
    ["src/net/server.ts", 'import net from "node:net";'],
    ["src/net/http.ts", "Bun.serve({});"],
    ["src/base/clock.ts", "Date.now();"],
    ["src/base/clock.ts", "new Date();"],
    ["src/base/clock.ts", "performance.now();"],
    ["src/base/clock.ts", "globalThis.performance.now();"],
    ["src/base/clock.ts", "setTimeout(f, 1);"],
    ["src/base/clock.ts", "globalThis.setInterval(f, 1);"],
    ["src/base/clock.ts", "Bun.nanoseconds();"],
    ["src/base/clock.ts", "const clock = { setTimeout };"],
  ])("only %s may: %s", (door, text) => {
    expect(at(door, text)).toEqual([]);
    expect(at("src/infer/request.ts", text)).toEqual([1]);
    expect(at("src/infer/request.test.ts", text)).toEqual([]);
    expect(at("tests/support/worker.ts", text)).toEqual([]);
  });

  test("types, members and other owners of a name are free", () => {
    expect(
      at("src/infer/a.ts", 'import type { Stats } from "node:fs";\nimport { type Dirent } from "node:fs";'),
    ).toEqual([]);
    expect(at("src/infer/a.ts", "let a: Worker; let b: Bun.Socket<null>; let c: typeof fetch;")).toEqual([]);
    expect(
      at("src/infer/a.ts", "clock.setTimeout(1); const x = { fetch: 1 }; x.fetch; interface A { fetch(): void }"),
    ).toEqual([]);
    expect(at("src/infer/a.ts", "new Date(0); Bun.hash(1);")).toEqual([]);
  });

  test("Bun under another name is refused", () => {
    expect(at("src/infer/a.ts", "const { file } = Bun;")).toEqual([1]);
    expect(at("src/infer/a.ts", "\nconst b = globalThis.Bun;")).toEqual([2]);
  });

  test("a door's own name is in the house", () => {
    for (const path of DOOR_PATHS) expect(importLaw(source(`${path.replace(/\/$/, "/a.ts")}`, ""))).toEqual([]);
  });
});

test("there is one ServerError", () => {
  const at = (path: string, text: string) => lines(oneServerError(source(path, text)));
  expect(at("src/net/a.ts", "class ServerError extends Error {}")).toEqual([1]);
  expect(at("src/net/a.ts", "\nclass Refusal extends ServerError {}")).toEqual([2]);
  expect(at("src/net/a.ts", "class StreamError extends Error {}")).toEqual([]);
  expect(at("src/base/errors.ts", "class ServerError extends Error {}")).toEqual([]);
});

describe("sizes", () => {
  const at = (path: string, text: string) => lines(sizes(source(path, text)));

  test("a file of at most 500 lines, generated ones excepted", () => {
    expect(at("src/net/a.ts", repeat("a;", 500))).toEqual([]);
    expect(at("src/net/a.ts", repeat("a;", 501))).toEqual([0]);
    expect(at("src/net/a.test.ts", repeat("a;", 501))).toEqual([0]);
    expect(at("proto/gen/a.ts", repeat("a;", 501))).toEqual([]);
  });

  test("a function of at most 70 lines, tests excepted", () => {
    const text = (count: number) => `\nconst f = () => {\n${repeat("a;", count - 2)}};\n`;
    expect(at("src/net/a.ts", text(70))).toEqual([]);
    expect(at("src/net/a.ts", text(71))).toEqual([2]);
    expect(at("src/net/a.test.ts", text(71))).toEqual([]);
    expect(at("src/net/a.ts", `class A {\n  m() {\n${repeat("a;", 69)}  }\n}`)).toEqual([2]);
  });

  test("the median and the 95th percentile of product files", () => {
    const files = (lengths: number[]) =>
      lengths.map((length, index) => source(`src/net/a${index}.ts`, repeat("a;", length)));
    expect(sizeDistribution(files([120, 120, 400]))).toHaveLength(1);
    expect(sizeDistribution(files([121, 121, 130]))).toHaveLength(1);
    expect(sizeDistribution(files([...Array(19).fill(100), 500]))).toEqual([]);
    expect(sizeDistribution(files([...Array(18).fill(100), 351, 351]))).toHaveLength(1);
    expect(sizeDistribution([])).toEqual([]);
  });
});

test("a file opens with 3-8 lines of comment, a test with one", () => {
  const at = (path: string, text: string) => lines(headers(source(path, text)));
  expect(at("src/net/a.ts", `${repeat("// a", 2)}a;`)).toEqual([1]);
  expect(at("src/net/a.ts", `${repeat("// a", 3)}a;`)).toEqual([]);
  expect(at("src/net/a.ts", `#!/usr/bin/env bun\n${repeat("// a", 8)}\na;`)).toEqual([]);
  expect(at("src/net/a.ts", `${repeat("// a", 9)}a;`)).toEqual([1]);
  expect(at("src/net/a.ts", `\n${repeat("// a", 5)}a;`)).toEqual([1]);
  expect(at("src/net/a.test.ts", "import 'a';")).toEqual([1]);
  expect(at("src/net/a.test.ts", "// Frames.\nimport 'a';")).toEqual([]);
  expect(at("proto/gen/a.ts", "a;")).toEqual([]);
});

test("names are kebab-case and say something", () => {
  const at = (path: string) => lines(names(source(path, "")));
  expect(at("src/net/flow-control.test.ts")).toEqual([]);
  expect(at("src/net/flowControl.ts")).toEqual([0]);
  expect(at("src/net/flow_control.ts")).toEqual([0]);
  expect(at("src/net/utils.ts")).toEqual([0]);
  expect(at("src/net/frame-helpers.ts")).toEqual([0]);
  expect(at("tests/common/a.ts")).toEqual([0]);
  expect(at("docs/misc/a.md")).toEqual([0]);
  expect(at("src/device/memory-manager.ts")).toEqual([0]);
  expect(at("proto/gen/grpc_service_pb.ts")).toEqual([]);
});

test("words that mark unfinished work, paths of a machine and hosts of registries are refused", () => {
  const at = (path: string, text: string) => lines(words(source(path, text)));
  expect(at("src/net/a.ts", "a;\n// TODO: later")).toEqual([2]);
  expect(at("docs/a.md", "FIXME\nXXX\nmktemp XXXXXX")).toEqual([1, 2]);
  expect(at("proto/a.proto", "// TODO")).toEqual([]);
  expect(at("src/net/a.ts", `open("/${"root"}/main/a");`)).toEqual([1]);
  expect(at("docs/a.md", `see /${"home"}/ann/a or /${"root"}/a`)).toEqual([1]);
  expect(at("src/base/threads.ts", `"/$bunfs/${"root"}/src/a.js"`)).toEqual([]);
  for (const pattern of REGISTRY_HOSTS) {
    const host = pattern.replaceAll("\\", "");
    expect(at("package-lock.json", `"resolved": "https://${host}/a"`)).toEqual([1]);
    expect(at("Dockerfile", `RUN pip install -i https://files.${host}/simple a`)).toEqual([1]);
  }
});

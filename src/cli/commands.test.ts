// The command line as a process: what it prints where, and its exit codes.

import { expect, test } from "bun:test";
import { join } from "node:path";
import { COMMANDS } from "./commands.ts";

const MAIN = join(import.meta.dir, "../main.ts");

async function run(argv: readonly string[], environment: Record<string, string> = {}) {
  const child = Bun.spawn([process.execPath, MAIN, ...argv], {
    env: { ...process.env, XLASERVER_NODE_FILE: "", ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  return { code: await child.exited, stdout, stderr };
}

test("no arguments: the overview, as wrong usage", async () => {
  const { code, stdout, stderr } = await run([]);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  for (const name of Object.keys(COMMANDS)) expect(stderr).toContain(`  ${name} `);
});

test("--help is not wrong", async () => {
  expect(await run(["--help"])).toMatchObject({ code: 0, stderr: "", stdout: expect.stringContaining("Commands:") });
});

test.each(Object.keys(COMMANDS))("%s has help", async (name) => {
  const { code, stdout } = await run([name, "--help"]);
  expect(code).toBe(0);
  expect(stdout).toMatch(new RegExp(`^Usage: xlaserver ${name}( \\S.*)?\n`));
  expect(stdout).toContain(COMMANDS[name]!.summary);
});

test.each<[string[], string]>([
  [["serv"], "unknown command 'serv', did you mean 'serve'?"],
  [["serve", "--grpc-prot=1"], "unknown flag '--grpc-prot', did you mean '--grpc-port'?"],
  [["--config", "no/such/node.yaml"], "node file: cannot read 'no/such/node.yaml': no such file or directory\n"],
  [
    ["serve", "--model-repository", "no/such/directory"],
    "command line: --model-repository: expected an existing directory",
  ],
  [["serve"], "Give --config FILE or --model-repository DIR"],
  [["config"], "Give FILE or XLASERVER_NODE_FILE"],
  [["node.yaml"], "did you mean '--config node.yaml'?"],
  [["bundles"], "did you mean 'serve --model-repository bundles'?"],
  [["inspect", "bundles"], "it holds bundles; give one of them: dense_v2"],
  [["ready", "--server", "21101"], "--server: expected HOST:PORT, received '21101'"],
  [["infer"], "which model?"],
  [["infer", "simple", "--bundle", "bundles/minilm"], "is the model 'minilm', not 'simple'"],
  [["infer", "simple", "--plugin", "a.so"], "--plugin is for --bundle only"],
  [["validate"], "too few arguments"],
  [["validate", "src/cli"], "is no bundle and holds none"],
])("%p is wrong usage", async (argv, message) => {
  const { code, stdout, stderr } = await run(argv);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toContain(message);
});

test("version prints JSON into a pipe", async () => {
  const { code, stdout } = await run(["version"]);
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ version: expect.any(String), bun: Bun.version });
});

test("config prints what file, variables and defaults make together", async () => {
  const { code, stdout } = await run(["config"], { XLASERVER_MODEL_DIRS: "src:tests", XLASERVER_STRICT: "on" });
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ strict: true, endpoints: { port: 8001 } });
});

// Hooks and a bundle's own tests in an executable: compiled threads, the preload taken out of it, its types; and that
// the same program does the same from source.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HOOK_TYPES_FILE, hookTypes } from "../../tests/support/hook-types.ts";

const ROOT = join(import.meta.dir, "..", "..");
const PROGRAM = join(ROOT, "tests", "support", "hook-program.ts");
const TIMEOUT_MS = 60_000;

const BUNDLE = {
  "model.ts": `
    import { InvalidInput, registerModel } from "xlaserver";
    import { BertTokenizer } from "xlaserver/text";
    import vocab from "./vocab.txt" with { type: "text" };
    import { twice } from "./twice.ts";
    const tokenizer = BertTokenizer.fromVocab(vocab);
    registerModel({
      async preprocess([x], context) {
        if (!x || x.dtype !== "f32") throw new InvalidInput("x: expected f32");
        if (context.requestId === "") { console.log("not for standard output");
          Promise.reject(new Error("floating"));
          await new Promise((resolve) => setTimeout(() => { resolve(undefined); throw new Error("from a timer"); }, 1));
        }
        return [{ name: "x", dtype: "f32", shape: x.shape, data: x.data.map(twice) }];
      },
      postprocess: () => [{ name: "ids", dtype: "i64", shape: [1, 3], data: tokenizer.encode(["hi"]).inputIds }],
    });`,
  "twice.ts": "export const twice = (value: number): number => 2 * value;",
  "vocab.txt": "[PAD]\n[UNK]\n[CLS]\n[SEP]\nhi\n",
  "model.test.ts": `
    import { expect, test } from "bun:test";
    import { hookContext, InvalidInput, registeredModel } from "xlaserver";
    import "./model.ts";
    const { preprocess, postprocess } = registeredModel();
    test("doubles", async () => {
      const x = { name: "x", dtype: "f32" as const, shape: [1], data: Float32Array.of(4) };
      const [made] = await preprocess!([x], hookContext({ requestId: "r" }));
      expect(made!.data[0]).toBe(8);
      expect(preprocess!([], hookContext())).rejects.toThrow(InvalidInput);
    });
    test("tokenises", async () => {
      const [ids] = await postprocess!([], hookContext());
      expect([...(ids!.data as BigInt64Array)]).toEqual([2n, 4n, 3n]);
    });`,
};

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "xlaserver-bundle-tests-"));
  for (const [name, text] of Object.entries(BUNDLE)) writeFileSync(join(directory, name), text);
});
afterAll(() => rmSync(directory, { recursive: true }));

function spawn(
  command: string[],
  env: Record<string, string> = {},
): { exitCode: number; stdout: string; stderr: string } {
  const { exitCode, stdout, stderr } = Bun.spawnSync(command, { cwd: directory, env: { ...process.env, ...env } });
  return { exitCode, stdout: stdout.toString(), stderr: stderr.toString() };
}

function expectHooksToWork(program: string[]): void {
  const { stdout, stderr } = spawn([...program, "run", directory]);
  expect(stderr).toBe("");
  const { values, warnings } = JSON.parse(stdout);
  expect(values).toEqual([2, 4]);
  // Errors outside of any call are heard of and hurt nobody; the last one may come after the call that caused it.
  expect(warnings.slice(0, 2)).toEqual([
    ["floating", ["preprocess (m/model.ts:11:30)"]],
    ["from a timer", ["<anonymous> (m/model.ts:12:91)"]],
  ]);
}

/** Runs the bundle's tests with the preload that `program` extracts, by the Bun that `bun` starts. */
function expectBundleTestsToPass(program: string[], bun: string[], env: Record<string, string>): void {
  expect(spawn([...program, "extract", directory]).stderr).toBe("");
  const { exitCode, stderr } = spawn([...bun, "test", "--preload", join(directory, "preload.js"), directory], env);
  expect({ exitCode, stderr }).toMatchObject({ exitCode: 0, stderr: expect.stringContaining("2 pass") });
}

test(
  "from source",
  () => {
    const program = [process.execPath, PROGRAM];
    expectHooksToWork(program);
    expectBundleTestsToPass(program, [process.execPath], {});
  },
  TIMEOUT_MS,
);

test(
  "compiled",
  async () => {
    const entries = ["src/hooks/hook.thread.ts", "src/hooks/preload.ts"].map((entry) => join(ROOT, entry));
    const outfile = join(directory, "program");
    const { success } = await Bun.build({ entrypoints: [PROGRAM, ...entries], root: ROOT, compile: { outfile } });
    expect(success).toBe(true);
    expectHooksToWork([outfile]);
    expectBundleTestsToPass([outfile], [outfile], { BUN_BE_BUN: "1" });
  },
  TIMEOUT_MS,
);

describe("xlaserver.d.ts", () => {
  test("is what the sources say: if not, `bun tests/support/hook-types.ts` writes it", () => {
    expect(readFileSync(HOOK_TYPES_FILE, "utf8")).toBe(hookTypes());
  });

  test(
    "types a bundle and its tests",
    () => {
      writeFileSync(join(directory, "xlaserver.d.ts"), readFileSync(HOOK_TYPES_FILE));
      const tsconfig = {
        compilerOptions: {
          target: "ESNext",
          module: "Preserve",
          moduleResolution: "bundler",
          strict: true,
          noEmit: true,
          skipLibCheck: true,
          allowImportingTsExtensions: true,
          typeRoots: [join(ROOT, "node_modules", "@types")],
          types: ["bun"],
        },
        include: ["*.ts"],
      };
      writeFileSync(join(directory, "tsconfig.json"), JSON.stringify(tsconfig));
      const tsc = join(ROOT, "node_modules", "typescript", "bin", "tsc");
      const { exitCode, stdout } = spawn([process.execPath, tsc, "-p", directory]);
      expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: "" });
    },
    TIMEOUT_MS,
  );
});

// What the log hears of hooks that print, fail, and change what all share; real threads, real model.ts files.

import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { bundle, failure, IDENTITY, load, loadText, pool, request, x } from "../../tests/support/hook-bundles.ts";
import { HOOK_LINES_PER_SECOND_MAX, HOOK_TEXT_CHARACTERS_MAX } from "../base/limits.ts";
import { LOG_LEVELS, type LogFields, type Logger } from "../base/log.ts";

type Line = LogFields & { readonly level: string; readonly event: string };

/** A log that keeps its lines, and can be waited for. */
function recorder(): { log: Logger; lines: Line[]; of(event: string): Line[]; heard(event: string): Promise<Line> } {
  const lines: Line[] = [];
  const waiting = new Set<() => void>();
  const entries = LOG_LEVELS.map((level) => {
    const write = (event: string, fields?: LogFields) => {
      lines.push({ level, event, ...fields });
      for (const wake of waiting) wake();
    };
    return [level, write];
  });
  const of = (event: string) => lines.filter((line) => line.event === event);
  const heard = (event: string) =>
    new Promise<Line>((resolve) => {
      const wake = () => {
        const [line] = of(event);
        if (line) resolve(line);
      };
      waiting.add(wake);
      wake();
    });
  return { log: Object.fromEntries(entries) as unknown as Logger, lines, of, heard };
}

test("what hooks print becomes lines of the log, each with its level", async () => {
  const { log, of } = recorder();
  using owner = pool({ log });
  using set = await loadText(
    owner,
    `import { log as named } from "node:console";
     console.log("at load");
     registerModel({ preprocess(inputs) {
       console.log("seen %d", inputs.length, { a: [1] });
       console.debug("d"); console.info("i"); console.warn("w"); console.error("e\\nf");
       console.table([{ a: 1 }]);
       console.dir({ deep: true });
       console.assert(false, "must be");
       named("by name");
       process.stdout.write("out\\n");
       process.stderr.write(new TextEncoder().encode("err"));
       console.log("${"y".repeat(10)}".repeat(1000));
       return inputs;
     } });`,
  );
  await set.preprocess([x(1)], request()).done;
  const lines = of("hook output");
  expect(lines.every(({ model, thread }) => model === "m" && thread === "hook-1")).toBe(true);
  const told = lines.map(({ level, text }) => [level, text]);
  expect(told.slice(0, 6)).toEqual([
    ["info", "at load"],
    ["info", "seen 1 { a: [ 1 ] }"],
    ["debug", "d"],
    ["info", "i"],
    ["warn", "w"],
    ["error", "e\nf"],
  ]);
  expect(told[6]![1]).toContain("(index)");
  expect(told.slice(7, -1)).toEqual([
    ["info", "{ deep: true }"],
    ["info", "Assertion failed: must be"],
    ["info", "by name"],
    ["info", "out"],
    ["warn", "err"],
  ]);
  expect(told.at(-1)![1]).toBe(
    `${"y".repeat(HOOK_TEXT_CHARACTERS_MAX)}... (${10_000 - HOOK_TEXT_CHARACTERS_MAX} more characters)`,
  );
});

test("a flood of lines is cut on its thread", async () => {
  const { log, of, heard } = recorder();
  using owner = pool({ log });
  using set = await loadText(
    owner,
    "registerModel({ preprocess(inputs) { for (let i = 0; i < 5000; i++) console.log(i); return inputs; } });",
  );
  await set.preprocess([x(1)], request()).done;
  expect(of("hook output").length).toBe(HOOK_LINES_PER_SECOND_MAX);
  const dropped = await heard("hook lines dropped");
  expect(dropped).toMatchObject({ level: "warn", of: "hook output", lines: 5000 - HOOK_LINES_PER_SECOND_MAX });
});

test("a hook that throws is logged with its stack, the client's fault is not", async () => {
  const { log, lines } = recorder();
  using owner = pool({ log });
  const directory = bundle({
    "model.ts": `import { check } from "./lib/check.ts";
interface Unused { readonly n: number }
registerModel({
  preprocess: (inputs) => {
    if (inputs.length === 0) throw new InvalidInput("give me something");
    const checked = check(inputs);
    return [checked].flat();
  },
});`,
    "lib/check.ts": `type T = unknown;
export function check(inputs: T): T {
  throw new TypeError("boom");
}`,
  });
  using set = await load(owner, directory);
  expect((await failure(set.preprocess([], request()).done)).code).toBe("INVALID_ARGUMENT");
  expect(lines).toEqual([]);
  expect((await failure(set.preprocess([x(1)], request()).done)).message).toBe("model 'm': preprocess hook: boom");
  expect(lines).toEqual([
    {
      level: "warn",
      event: "hook failed",
      model: "m",
      hook: "preprocess",
      thread: "hook-1",
      error: "boom",
      stack: ["check (m/lib/check.ts:3:13)", "preprocess (m/model.ts:7:21)"],
    },
  ]);
});

test("a bundle that always fails does not flood the log", async () => {
  const { log, of } = recorder();
  using owner = pool({ log });
  using set = await loadText(owner, "registerModel({ preprocess() { throw new Error('no'); } });");
  const runs = Array.from({ length: 4 * HOOK_LINES_PER_SECOND_MAX }, () => failure(set.preprocess([], request()).done));
  await Promise.all(runs);
  const seconds = 1 + of("hook lines dropped").length;
  expect(of("hook failed").length).toBeLessThanOrEqual(seconds * HOOK_LINES_PER_SECOND_MAX);
});

test("an import that fails names the file and line where it was thrown", async () => {
  using owner = pool();
  const directory = bundle({
    "model.ts": 'import { open } from "./weights.ts";\nregisterModel({});\nopen();',
    "weights.ts": "\nexport const open = () => {\n  throw new Error('at load');\n};",
  });
  expect((await failure(load(owner, directory, 10_000, "minilm"))).message).toBe("minilm/weights.ts:3:13: at load");
  writeFileSync(join(directory, "weights.ts"), "export const open = (;");
  expect((await failure(load(owner, directory, 10_000, "minilm"))).message).toStartWith(
    "minilm/weights.ts:1:22: Unexpected",
  );
});

test("a bundle that changes built-ins is told, and what breaks by it fails with its reason", async () => {
  const { log, of } = recorder();
  using owner = pool({ log });
  using neighbour = await loadText(owner, IDENTITY, 10_000, "neighbour");
  const changes = `Array.prototype.map = () => { throw new Error("broken"); };
    Object.prototype.extra = 1;
    String.prototype.polyfill ??= () => {};
    registerModel({});`;
  using _changer = await loadText(owner, changes, 10_000, "changer");
  using _later = await loadText(owner, IDENTITY, 10_000, "later").catch(() => undefined);
  expect(of("hooks change built-ins")).toMatchObject([
    { level: "warn", model: "changer", thread: "hook-1", changed: ["Array.prototype.map", "Object.prototype.extra"] },
  ]);
  const error = await failure(neighbour.preprocess([x(1)], request()).done);
  expect(error.message).toStartWith("model 'neighbour': preprocess hook: ");
});

// Every suite of `npm test` and `npm run check`, and how its output becomes counts.
//
// Types and lint count as one each. A Bun suite counts the tests of its closing summary; one that dies, or fails
// outside a test, counts as one failure, so no suite can vanish from the sum.

import { existsSync, readdirSync } from "node:fs";
import { bunBinary } from "./packages.mjs";
import { at } from "./paths.mjs";
import { watch } from "./run.mjs";

/** Suites in the order they run: quick ones first. `tests` are the paths that hold them. */
const BUN_SUITES = [
  { name: "unit", tests: ["src", "ffi", "bundles", "tests/support", "tests/tidy", "tests/tidy.test.ts"] },
  { name: "golden", tests: ["tests/golden"] },
  { name: "contract", tests: ["tests/contract"] },
  { name: "sim", tests: ["tests/sim"] },
  { name: "e2e", tests: ["tests/e2e"] },
  { name: "gpu", tests: ["tests/gpu"] },
];

/**
 * @typedef {{passed: number, failed: number, skipped: number}} Counts
 * @typedef {{name: string, run: (show: boolean) => Promise<{counts: Counts, output: string}>}} Suite
 */

/** Type check, lint, and the suites named (all, if none is). @returns {Promise<Suite[]>} */
export async function suites(names = [...BUN_SUITES.map(({ name }) => name), "export"]) {
  const bun = await bunBinary();
  const wanted = BUN_SUITES.filter(
    ({ name, tests }) => names.includes(name) && tests.some((path) => holdsTests(at(path))),
  );
  return [
    tool("types", process.execPath, [at("node_modules", "typescript", "bin", "tsc"), "--noEmit", "-p", "."]),
    tool("lint", at("node_modules", ".bin", "biome"), ["ci", "--colors=off", "."]),
    ...wanted.map(({ name, tests }) => ({
      name,
      run: async (show) => {
        const paths = tests.filter((path) => holdsTests(at(path))).map((path) => `./${path}`);
        const { code, output } = await watch(bun, ["test", ...paths], { show });
        return { counts: bunCounts(output, code), output };
      },
    })),
    ...(names.includes("export") ? [exporter] : []),
  ];
}

/** The exporter's Python tests; those that need torch skip without it. */
const exporter = {
  name: "export",
  run: async (show) => {
    const args = ["-B", "-m", "unittest", "discover", "-v", "-s", "export/tests", "-t", "export"];
    const { code, output } = await watch("python3", args, { show });
    const count = (pattern) => Number(output.match(pattern)?.[1] ?? 0);
    const ran = count(/^Ran (\d+) tests? /m);
    const skipped = count(/skipped=(\d+)/);
    const failed = count(/failures=(\d+)/) + count(/errors=(\d+)/);
    const counts = { passed: ran - skipped - failed, failed: failed === 0 && code !== 0 ? 1 : failed, skipped };
    return { counts, output };
  },
};

/** A program that either passes or fails. */
function tool(name, command, args) {
  return {
    name,
    run: async (show) => {
      const { code, output } = await watch(command, args, { show });
      return { counts: { passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1, skipped: 0 }, output };
    },
  };
}

/** The counts of a `bun test` run, from the summary that ends its output (" 3 pass", " 1 skip", " 0 fail"). */
export function bunCounts(output, code) {
  const count = (word) =>
    Number(output.match(new RegExp(`^ (\\d+) ${word}$(?![\\s\\S]*^ \\d+ ${word}$)`, "m"))?.[1] ?? 0);
  const failed = count("fail");
  return {
    passed: count("pass"),
    failed: failed === 0 && code !== 0 ? 1 : failed,
    skipped: count("skip") + count("todo"),
  };
}

function holdsTests(path) {
  if (path.endsWith(".ts")) return existsSync(path);
  return existsSync(path) && readdirSync(path, { recursive: true }).some((file) => file.endsWith(".test.ts"));
}

/** The sum of several counts. @param {Counts[]} all */
export function sumOf(all) {
  const sum = (key) => all.reduce((total, counts) => total + counts[key], 0);
  return { passed: sum("passed"), failed: sum("failed"), skipped: sum("skipped") };
}

/** "12 passed, 0 failed", and ", 3 skipped" where there are any. @param {Counts} counts */
export function summary({ passed, failed, skipped }) {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
}

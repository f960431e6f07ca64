// `npm test`: everything, in a clean clone or not. The last line it prints is the sum over all suites.

import { ensureExecutable } from "./executable.mjs";
import { prepare } from "./prepare.mjs";
import { SetupError, script } from "./run.mjs";
import { suites, summary, sumOf } from "./suites.mjs";
import { ensureTestTexts, ensureTestTools } from "./test-tools.mjs";
import { TEST_PLUGINS } from "./wheels.mjs";

/** The executable that end-to-end tests run. A suite, so that the others still run, and count, when it doesn't build. */
const build = {
  name: "build",
  run: async () => {
    try {
      await ensureExecutable();
      return { counts: { passed: 1, failed: 0, skipped: 0 } };
    } catch (error) {
      if (!(error instanceof SetupError)) throw error;
      console.log(`${error.output}\n${error.message}`);
      return { counts: { passed: 0, failed: 1, skipped: 0 } };
    }
  },
};

await script(async () => {
  await Promise.all([prepare(TEST_PLUGINS), ensureTestTools()]);
  await ensureTestTexts();
  const results = [];
  for (const suite of [build, ...(await suites())]) {
    console.log(`\n== ${suite.name}`);
    const { counts } = await suite.run(true);
    console.log(`== ${suite.name}: ${summary(counts)}`);
    results.push(counts);
  }
  const total = sumOf(results);
  console.log(`\n${summary(total)}`);
  return total.failed > 0 ? 1 : 0;
});

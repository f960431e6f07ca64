// `npm test`: everything, in a clean clone or not. The last line it prints is the sum over all suites.

import { ensureExecutable } from "./executable.mjs";
import { prepare } from "./prepare.mjs";
import { script } from "./run.mjs";
import { suites, summary, sumOf } from "./suites.mjs";
import { ensureTestTools } from "./test-tools.mjs";
import { TEST_PLUGINS } from "./wheels.mjs";

await script(async () => {
  await Promise.all([prepare(TEST_PLUGINS), ensureTestTools()]);
  await ensureExecutable();
  const results = [];
  for (const suite of await suites()) {
    console.log(`\n== ${suite.name}`);
    const { counts } = await suite.run(true);
    console.log(`== ${suite.name}: ${summary(counts)}`);
    results.push(counts);
  }
  const total = sumOf(results);
  console.log(`\n${summary(total)}`);
  return total.failed > 0 ? 1 : 0;
});

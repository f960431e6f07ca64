// `npm run check`: types, lint, tidy and unit tests, side by side, for the loop of editing. Under half a minute.

import { prepare } from "./prepare.mjs";
import { script } from "./run.mjs";
import { suites, summary, sumOf } from "./suites.mjs";

await script(async () => {
  await prepare();
  const results = await Promise.all(
    (await suites(["unit"])).map(async (suite) => ({ suite, ...(await suite.run(false)) })),
  );
  for (const { suite, counts, output } of results) {
    if (counts.failed > 0) console.log(output);
    console.log(`${suite.name}: ${summary(counts)}`);
  }
  const total = sumOf(results.map(({ counts }) => counts));
  console.log(summary(total));
  return total.failed > 0 ? 1 : 0;
});

// The house rules of the project, executed: rooms and floors, doors, sizes, headers, names, words.
//
// The rules live in tidy/, each with its own negative test there. All violations are reported at once.

import { expect, test } from "bun:test";
import { join } from "node:path";
import { oneServerError, sideEffectDoors } from "./tidy/doors.ts";
import { bundleImports, importCycles, importLaw, literalImports, threadEntries } from "./tidy/imports.ts";
import { readSources, type Source, type Violation } from "./tidy/source.ts";
import { headers, names, sizeDistribution, sizes, words } from "./tidy/texts.ts";

const FILE_RULES = [
  importLaw,
  literalImports,
  bundleImports,
  sideEffectDoors,
  oneServerError,
  sizes,
  headers,
  names,
  words,
];
const HOUSE_RULES = [importCycles, threadEntries, sizeDistribution];

function check(sources: readonly Source[]): Violation[] {
  return [
    ...sources.flatMap((file) => FILE_RULES.flatMap((rule) => rule(file))),
    ...HOUSE_RULES.flatMap((rule) => rule(sources)),
  ].sort((a, b) => (a.path === b.path ? a.line - b.line : a.path < b.path ? -1 : 1));
}

test("the house is tidy", () => {
  const sources = readSources(join(import.meta.dir, ".."));
  expect(sources.length).toBeGreaterThan(10);
  const report = check(sources).map(({ path, line, rule, message }) => `${path}:${line || 1}: ${rule}: ${message}`);
  if (report.length > 0) throw new Error(`${report.length} violations of the house rules\n${report.join("\n")}`);
});

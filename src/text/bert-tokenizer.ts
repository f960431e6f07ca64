// Texts to the inputs of a BERT-like model: special tokens, truncation, padding to a bucket, type ids.
//
// Token for token the result is that of Hugging Face tokenizers with BertNormalizer, BertPreTokenizer, WordPiece and
// truncation "longest first" (tests/contract/tokenizer.test.ts compares). One tokenizer serves any number of calls.
// Used by bundles' hooks, which import it from "xlaserver/text".

import { InvalidInput } from "../api.ts";
import { WordPiece } from "./word-piece.ts";
import { eachWord } from "./words.ts";

export interface EncodeOptions {
  /** Second texts, one for each of `texts`; an empty one counts as none. */
  readonly pairs?: readonly (string | Uint8Array)[];
  /** Lengths that the model was compiled for; rows are padded to the smallest that holds the longest. */
  readonly buckets?: readonly number[];
  /** Tokens a row at most, [CLS] and [SEP] included; what is beyond is cut. Default: the largest bucket, else no limit. */
  readonly maxLength?: number;
  /** What messages call the texts; default `texts`. */
  readonly name?: string;
}

/** Three [n, t] matrices, row-major, i64. */
export interface Encoding {
  readonly inputIds: BigInt64Array<ArrayBuffer>;
  /** 1 for a token, 0 for padding. */
  readonly attentionMask: BigInt64Array<ArrayBuffer>;
  /** 0 for the first text and padding, 1 for the second text and its [SEP]. */
  readonly tokenTypeIds: BigInt64Array<ArrayBuffer>;
  readonly shape: [n: number, t: number];
}

/** A row before padding. `secondStart` is where the second text begins; the row's length when there is none. */
interface Row {
  readonly ids: readonly number[];
  readonly secondStart: number;
}

const REQUIRED = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"] as const;

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export class BertTokenizer {
  private readonly pieces: WordPiece;
  private readonly specials: ReadonlyMap<string, number>;
  private readonly specialPattern: RegExp;
  private readonly pad: number;
  private readonly cls: number;
  private readonly sep: number;

  private constructor(readonly vocabulary: ReadonlyMap<string, number>) {
    const [pad, unknown, cls, sep] = REQUIRED.map((token) => vocabulary.get(token)!) as [
      number,
      number,
      number,
      number,
    ];
    this.pad = pad;
    this.cls = cls;
    this.sep = sep;
    this.pieces = new WordPiece(vocabulary, unknown);
    const specials = [...REQUIRED, "[MASK]"].filter((token) => vocabulary.has(token));
    this.specials = new Map(specials.map((token) => [token, vocabulary.get(token)!]));
    this.specialPattern = new RegExp(`\\[(?:${specials.map((token) => token.slice(1, -1)).join("|")})\\]`, "g");
  }

  /**
   * A tokenizer over the text of a `vocab.txt`: one piece a line, the id is the line's number from 0. In a hook:
   * `import vocab from "./vocab.txt" with { type: "text" }`. Throws an Error that lists missing special tokens.
   */
  static fromVocab(text: string): BertTokenizer {
    const lines = text.split("\n");
    if (lines.at(-1) === "") lines.pop();
    const vocabulary = new Map(lines.map((line, id) => [line.replace(/\p{White_Space}+$/u, ""), id]));
    const missing = REQUIRED.filter((token) => !vocabulary.has(token));
    if (missing.length > 0)
      throw new Error(`vocabulary of ${lines.length} lines: expected ${missing.join(", ")} in it`);
    return new BertTokenizer(vocabulary);
  }

  /**
   * Encodes n texts as an [n, t] batch. Bytes must be UTF-8.
   *
   * @throws InvalidInput for bytes that are not UTF-8, for another number of pairs than of texts, and for a row longer
   *   than the largest bucket (possible only with a `maxLength` above it). RangeError for a `maxLength` without room.
   */
  encode(texts: readonly (string | Uint8Array)[], options: EncodeOptions = {}): Encoding {
    const { pairs, buckets, name = "texts" } = options;
    const maxLength = options.maxLength ?? (buckets ? Math.max(...buckets) : Number.POSITIVE_INFINITY);
    if (!(maxLength >= 3)) throw new RangeError(`maxLength: expected at least 3, received ${maxLength}`);
    if (pairs && pairs.length !== texts.length) {
      throw new InvalidInput(`${name}: expected as many pairs as texts, ${texts.length}, received ${pairs.length}`);
    }
    const rows: Row[] = [];
    let longest = 0;
    for (let index = 0; index < texts.length; index++) {
      const text = decode(texts[index]!, `${name}[${index}]`);
      const pair = pairs ? decode(pairs[index]!, `pair of ${name}[${index}]`) : "";
      const row = this.row(text, pair, maxLength);
      longest = Math.max(longest, row.ids.length);
      rows.push(row);
    }
    return this.pack(rows, paddedLength(longest, buckets, name));
  }

  /** The ids of a text without [CLS] and [SEP], at most `limit` of them. Special tokens in the text become themselves. */
  tokenize(text: string, limit = Number.POSITIVE_INFINITY): number[] {
    const ids: number[] = [];
    const visit = (word: string): boolean => {
      this.pieces.append(word, ids);
      return ids.length < limit;
    };
    let start = 0;
    if (text.includes("[")) {
      for (const match of text.matchAll(this.specialPattern)) {
        if (ids.length >= limit) break;
        eachWord(text.slice(start, match.index), visit);
        ids.push(this.specials.get(match[0])!);
        start = match.index + match[0].length;
      }
    }
    if (ids.length < limit) eachWord(start === 0 ? text : text.slice(start), visit);
    if (ids.length > limit) ids.length = limit;
    return ids;
  }

  private row(text: string, pair: string, maxLength: number): Row {
    // Both lengths count when a pair is cut, so neither text may be cut early.
    const second = pair === "" ? [] : this.tokenize(pair);
    if (second.length === 0) {
      const first = this.tokenize(text, maxLength - 2);
      return { ids: [this.cls, ...first, this.sep], secondStart: first.length + 2 };
    }
    const first = this.tokenize(text);
    const [a, b] = pairLengths(first.length, second.length, maxLength - 3);
    const ids = [this.cls, ...first.slice(0, a), this.sep, ...second.slice(0, b), this.sep];
    return { ids, secondStart: a + 2 };
  }

  private pack(rows: readonly Row[], length: number): Encoding {
    const inputIds = new BigInt64Array(rows.length * length);
    const attentionMask = new BigInt64Array(rows.length * length);
    const tokenTypeIds = new BigInt64Array(rows.length * length);
    // Ids are below 2^31, so they are written as the low halves of little-endian i64, which spares a BigInt each.
    const ids = new Int32Array(inputIds.buffer);
    const mask = new Int32Array(attentionMask.buffer);
    const types = new Int32Array(tokenTypeIds.buffer);
    rows.forEach((row, index) => {
      const origin = 2 * index * length;
      for (let token = 0; token < length; token++) {
        const at = origin + 2 * token;
        const real = token < row.ids.length;
        ids[at] = real ? row.ids[token]! : this.pad;
        mask[at] = real ? 1 : 0;
        types[at] = real && token >= row.secondStart ? 1 : 0;
      }
    });
    return { inputIds, attentionMask, tokenTypeIds, shape: [rows.length, length] };
  }
}

/**
 * How many tokens of a pair fit `room`: the longer is cut to the shorter, then what is still too much is taken evenly
 * from both, the odd token from the one that was shorter (b counts as longer in a tie).
 */
export function pairLengths(a: number, b: number, room: number): [a: number, b: number] {
  if (a + b <= room) return [a, b];
  const half = Math.floor(room / 2);
  const shorter = Math.min(a, b, half);
  const longer = room - shorter;
  return a > b ? [longer, shorter] : [shorter, longer];
}

function paddedLength(longest: number, buckets: readonly number[] | undefined, name: string): number {
  if (!buckets) return longest;
  const fitting = buckets.filter((bucket) => bucket >= longest);
  if (fitting.length > 0) return Math.min(...fitting);
  throw new InvalidInput(`${name}: expected at most ${Math.max(...buckets)} tokens a row, received ${longest}`);
}

function decode(text: string | Uint8Array, name: string): string {
  if (typeof text === "string") return text;
  try {
    return utf8.decode(text);
  } catch {
    throw new InvalidInput(`${name}: expected UTF-8, received ${text.byteLength} bytes that are not`);
  }
}

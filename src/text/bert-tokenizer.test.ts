// The tokenizer on a vocabulary small enough to read; tests/contract/tokenizer.test.ts compares with the reference.

import { expect, test } from "bun:test";
import { InvalidInput } from "../api.ts";
import { BertTokenizer, pairLengths } from "./bert-tokenizer.ts";

const PIECES = "[PAD] [UNK] [CLS] [SEP] [MASK] hi - ho un ##aff ##able ά σ 中 istanbul ##s a b".split(" ");
const tokenizer = BertTokenizer.fromVocab(`${PIECES.join("\n")}\n`);

function pieces(text: string): string {
  return tokenizer
    .tokenize(text)
    .map((id) => PIECES[id])
    .join(" ");
}

test("words, punctuation and pieces", () => {
  expect(pieces("Hi-Ho")).toBe("hi - ho");
  expect(pieces("  unaffable\tunaff unx ")).toBe("un ##aff ##able un ##aff [UNK]");
  expect(pieces("")).toBe("");
  expect(pieces(`${"a".repeat(101)} hi`)).toBe("[UNK] hi");
});

test("lowercasing is per code point: no final sigma, no dotted i", () => {
  expect(pieces("Σ ΑΣ İstanbul İSTANBULs")).toBe("σ [UNK] istanbul istanbul ##s");
  expect(pieces("h\u0301i h\u00adi 中中hi")).toBe("hi hi 中 中 hi");
});

test("special tokens are taken verbatim, inside words too", () => {
  expect(pieces("hi[SEP]ho [sep] [MASK]")).toBe("hi [SEP] ho [UNK] [UNK] [UNK] [MASK]");
});

test("a single text is cut on the right and padded to the smallest bucket", () => {
  const { inputIds, attentionMask, tokenTypeIds, shape } = tokenizer.encode(["hi ho", "hi ho hi ho hi"], {
    buckets: [8, 6, 4],
    maxLength: 6,
  });
  expect(shape).toEqual([2, 6]);
  expect([...inputIds].map(Number)).toEqual([2, 5, 7, 3, 0, 0, 2, 5, 7, 5, 7, 3]);
  expect([...attentionMask].map(Number)).toEqual([1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1]);
  expect(tokenTypeIds.every((type) => type === 0n)).toBe(true);
});

test("a pair has type ids; an empty second text counts as none", () => {
  const texts = [new TextEncoder().encode("hi"), "hi"];
  const { inputIds, tokenTypeIds, shape } = tokenizer.encode(texts, { pairs: ["ho ho", " "] });
  expect(shape).toEqual([2, 6]);
  expect([...inputIds].map(Number)).toEqual([2, 5, 3, 7, 7, 3, 2, 5, 3, 0, 0, 0]);
  expect([...tokenTypeIds].map(Number)).toEqual([0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0]);
});

test("pairs are cut longest first", () => {
  expect(pairLengths(10, 10, 15)).toEqual([7, 8]);
  expect(pairLengths(11, 10, 15)).toEqual([8, 7]);
  expect(pairLengths(20, 3, 10)).toEqual([7, 3]);
  expect(pairLengths(3, 20, 10)).toEqual([3, 7]);
  expect(pairLengths(3, 4, 10)).toEqual([3, 4]);
  expect(pairLengths(5, 5, 0)).toEqual([0, 0]);
});

test("no text at all is an empty batch", () => {
  expect(tokenizer.encode([], { buckets: [4, 8] }).shape).toEqual([0, 4]);
});

test("what is wrong is named", () => {
  const invalid = (run: () => unknown, message: string) => {
    expect(run).toThrow(InvalidInput);
    expect(run).toThrow(message);
  };
  invalid(() => tokenizer.encode([Uint8Array.of(0xff)]), "texts[0]: expected UTF-8, received 1 bytes that are not");
  invalid(() => tokenizer.encode(["hi"], { pairs: [] }), "texts: expected as many pairs as texts, 1, received 0");
  invalid(
    () => tokenizer.encode(["hi hi hi"], { buckets: [4], maxLength: 9, name: "query" }),
    "query: expected at most 4 tokens a row, received 5",
  );
  expect(() => tokenizer.encode(["hi"], { maxLength: 2 })).toThrow("maxLength: expected at least 3, received 2");
  expect(() => BertTokenizer.fromVocab("[PAD]\nhi\n")).toThrow("expected [UNK], [CLS], [SEP] in it");
});

test("more distinct words than are remembered still split right", () => {
  for (let index = 0; index < 20_000; index++) tokenizer.tokenize(`unaff${index}`);
  expect(pieces("unaff unaffable")).toBe("un ##aff un ##aff ##able");
});

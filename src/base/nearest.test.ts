// Hints: what is near enough to be meant, and what is not.

import { expect, test } from "bun:test";
import { didYouMean, nearest } from "./nearest.ts";

test.each([
  ["excutable_inputs", "executable_inputs"],
  ["executbale_inputs", "executable_inputs"],
  ["Model_Repo", "model_repo"],
  ["weight", undefined],
  ["", undefined],
])("%p is nearest to %p", (word, expected) => {
  expect(nearest(word, ["executable_outputs", "executable_inputs", "model_repo"])).toBe(expected);
});

test("of equally near words the first is taken", () => {
  expect(nearest("abcx", ["abcd", "abce"])).toBe("abcd");
});

test("a hint is a clause, or nothing", () => {
  expect(didYouMean("serv", ["serve", "infer"])).toBe(", did you mean 'serve'?");
  expect(didYouMean("bake", ["serve", "infer"])).toBe("");
});

// Repeated keys are found at every depth, whatever their spelling, and nothing else is.

import { expect, test } from "bun:test";
import { repeatedKeys } from "./json-keys.ts";

test.each([
  ['{"a":1,"b":2}', []],
  ['{"a":1,"a":2}', ["a"]],
  ['{"a":1,"\\u0061":2}', ["a"]],
  ['{"a":{"b":1,"b":2},"c":{"b":1}}', ["b"]],
  ['{"a":["a","a",{"a":"a"},"a"],"b":"b"}', []],
  ['{"a":"}","b":"\\"","a":"\\\\"}', ["a"]],
  ['{"a":[{},[],{}],"b":[1,2],"b":[]}', ["b"]],
  ['{"__proto__":1,"__proto__":2}', ["__proto__"]],
  ["{}", []],
])("%s repeats %p", (text, expected) => {
  JSON.parse(text);
  expect(repeatedKeys(text)).toEqual(expected);
});

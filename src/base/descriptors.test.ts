// The limit of open files, from what Linux writes and from this process.

import { expect, test } from "bun:test";
import { descriptorsMax, parseDescriptorsMax } from "./descriptors.ts";

test("the soft limit of open files, as Linux writes it", () => {
  const head = "Limit                     Soft Limit           Hard Limit           Units     \n";
  expect(
    parseDescriptorsMax(`${head}Max open files            256                  4096                 files     \n`),
  ).toBe(256);
  expect(
    parseDescriptorsMax(`${head}Max open files            unlimited            unlimited            files     \n`),
  ).toBe(Number.POSITIVE_INFINITY);
  expect(parseDescriptorsMax("")).toBe(Number.POSITIVE_INFINITY);
  expect(descriptorsMax()).toBeGreaterThan(0);
});

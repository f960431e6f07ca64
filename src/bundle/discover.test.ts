// Repositories: what is a bundle, which of two wins, and that a bad one stops no other.

import { expect, test } from "bun:test";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { tempRepository } from "../../tests/support/bundles.ts";
import { discoverBundles, readCandidate } from "./discover.ts";

test("immediate subdirectories with a manifest are bundles, in order of name", () => {
  using repository = tempRepository({ b: { from: "simple" }, a: { from: "identity_fp32" } });
  const { directory } = repository;
  mkdirSync(join(directory, "no-manifest"));
  for (const name of [".hidden", "nested/inner"]) {
    mkdirSync(join(directory, name), { recursive: true });
    writeFileSync(join(directory, name, "manifest.yaml"), "");
  }
  symlinkSync("loop", join(directory, "loop"));
  symlinkSync("a", join(directory, "link"));
  const { candidates, ignored, rootErrors } = discoverBundles([directory]);
  expect(rootErrors).toEqual([]);
  expect(ignored).toEqual([]);
  expect(candidates.map(({ name }) => name)).toEqual(["a", "b", "link"]);
  expect(candidates.map((candidate) => readCandidate(candidate).bundle?.name)).toEqual(["a", "b", "link"]);
});

test("a bad bundle is an entry with its error, and the others are served", () => {
  using repository = tempRepository({
    good: { from: "simple" },
    broken: { files: { "manifest.yaml": "format_version: [" } },
    "42": { from: "simple" },
    directory: { files: { "manifest.yaml/file": "" } },
  });
  const entries = discoverBundles([repository.directory]).candidates.map(readCandidate);
  expect(entries.map(({ name, error }) => [name, error?.code])).toEqual([
    ["42", "INVALID_ARGUMENT"],
    ["broken", "INVALID_ARGUMENT"],
    ["directory", "INVALID_ARGUMENT"],
    ["good", undefined],
  ]);
  expect(entries[0]!.error!.message).toContain("versions are not supported yet");
});

test("a bundle that went away between finding and reading is an entry with its error", () => {
  using repository = tempRepository({ a: { from: "simple" } });
  const { candidates } = discoverBundles([repository.directory]);
  repository.remove("a");
  expect(readCandidate(candidates[0]!).error?.code).toBe("NOT_FOUND");
});

test("of two bundles with one name the first root's wins", () => {
  using first = tempRepository({ a: { from: "simple" } });
  using second = tempRepository({ a: { from: "identity_fp32" }, b: { from: "simple" } });
  const { candidates } = discoverBundles([first.directory, second.directory, first.directory]);
  const entries = candidates.map(readCandidate);
  expect(entries.map(({ name, error }) => [name, error?.code])).toEqual([
    ["a", undefined],
    ["a", "ALREADY_EXISTS"],
    ["b", undefined],
  ]);
  expect(entries[1]!.error!.message).toContain(first.bundle("a"));
});

test("a missing root is an error of its own, and the others are read", () => {
  using repository = tempRepository({ a: { from: "simple" } });
  const { candidates, rootErrors } = discoverBundles([join(repository.directory, "none"), repository.directory]);
  expect(candidates.map(({ name }) => name)).toEqual(["a"]);
  expect(rootErrors.map(({ code }) => code)).toEqual(["NOT_FOUND"]);
  expect(rootErrors[0]!.message).toContain("none");
});

test("a root that is a bundle itself is an error that names its parent", () => {
  using repository = tempRepository({ a: { from: "simple" } });
  const { candidates, rootErrors } = discoverBundles([repository.bundle("a")]);
  expect(candidates).toEqual([]);
  expect(rootErrors.map(({ code, message }) => [code, message])).toEqual([
    [
      "INVALID_ARGUMENT",
      `model repository: '${repository.bundle("a")}' is a bundle: give its parent directory, '${repository.directory}'`,
    ],
  ]);
});

test("directories that only look like bundles are named, others are not", () => {
  using repository = tempRepository({
    "json-manifest": { files: { "manifest.json": "{}" } },
    "module-only": { files: { "model.mlir": "module {}" } },
    "other-files": { files: { "README.md": "", "deeper/model.mlir": "" } },
    "yml-manifest": { files: { "manifest.yml": "", "model.b1.mlir": "" } },
  });
  const { candidates, ignored } = discoverBundles([repository.directory]);
  expect(candidates).toEqual([]);
  expect(ignored.map(({ directory, reason }) => [basename(directory), reason])).toEqual([
    ["json-manifest", "it holds manifest.json, but no manifest.yaml"],
    ["module-only", "it holds model.mlir, but no manifest.yaml"],
    ["yml-manifest", "it holds manifest.yml, but no manifest.yaml"],
  ]);
});

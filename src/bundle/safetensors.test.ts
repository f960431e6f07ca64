// A safetensors header that lies about its file is refused, whatever it lies about; one that does not is read.

import { describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type FileTensor, type SafetensorsOptions, safetensorsFile } from "../../tests/support/safetensors.ts";
import { type Issue, IssuesError } from "../base/errors.ts";
import { parseHeader, readSafetensors } from "./safetensors.ts";
import { weightArguments } from "./weights.ts";

const f32 = (...shape: number[]): FileTensor => ({
  dtype: "F32",
  shape,
  data: new Float32Array(shape.reduce((a, b) => a * b, 1)),
});

function read(file: Uint8Array) {
  const directory = mkdtempSync(join(tmpdir(), "xlaserver-weights-"));
  try {
    const path = join(directory, "w");
    writeFileSync(path, file);
    const issues: Issue[] = [];
    const header = readSafetensors(path, "w", issues);
    expect(header === undefined).toBe(issues.length > 0);
    return { header, text: issues.length > 0 ? new IssuesError("m", issues).message : "" };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

const refusal = (tensors: Record<string, FileTensor>, options: SafetensorsOptions = {}) =>
  read(safetensorsFile(tensors, options)).text;

/** A file of one tensor `a`, f32 [2], whose header entry is changed. */
const tampered = (change: Record<string, unknown>) =>
  refusal({ a: f32(2) }, { tamper: ({ a, ...rest }) => ({ ...rest, a: { ...(a as object), ...change } }) });

describe("good files", () => {
  test("tensors of every kind of shape, in any order, with metadata", () => {
    const { header } = read(
      safetensorsFile({ z: f32(2, 3), scalar: f32(), empty: f32(0, 4), a: f32(1) }, { metadata: { format: "pt" } }),
    );
    const tensors = [...header!.tensors].map(([name, { shape, byteLength }]) => [name, shape, byteLength]);
    expect(tensors).toEqual([
      ["z", [2, 3], 24],
      ["scalar", [], 4],
      ["empty", [0, 4], 0],
      ["a", [1], 4],
    ]);
    expect(header!.tensors.get("a")!.fileOffset - header!.tensors.get("z")!.fileOffset).toBe(28);
  });

  test("no tensors", () => {
    expect(read(safetensorsFile({})).header!.tensors.size).toBe(0);
  });

  test("a tensor of a dtype that we do not serve may lie there, not be an argument", () => {
    const odd: FileTensor = { dtype: "C64", shape: [1], data: new Uint8Array(8) };
    const { header } = read(safetensorsFile({ odd, a: f32(1) }));
    const issues: Issue[] = [];
    expect(weightArguments(header!, ["a"], false, issues, "w")).toHaveLength(1);
    expect(issues).toEqual([]);
    weightArguments(header!, ["odd"], false, issues, "w");
    expect(issues[0]!.received).toBe("'odd' of C64");
  });

  test("names that are no plain words", () => {
    const { header } = read(safetensorsFile({ "layer.0/weight:0": f32(1), 'a"b\\': f32(1), __proto__x: f32(1) }));
    expect([...header!.tensors.keys()]).toEqual(["layer.0/weight:0", 'a"b\\', "__proto__x"]);
  });
});

describe("arguments", () => {
  const { header } = read(safetensorsFile({ b: f32(2, 3, 4), a: f32(5) }));

  test("in the order listed; transposed from rank 2 where axes are reversed", () => {
    const issues: Issue[] = [];
    const reversed = weightArguments(header!, ["a", "b"], true, issues, "w");
    expect(reversed.map(({ name, shape, transposed }) => [name, shape, transposed])).toEqual([
      ["a", [5], false],
      ["b", [4, 3, 2], true],
    ]);
    const plain = weightArguments(header!, ["b"], false, issues, "w");
    expect(plain.map(({ shape, transposed }) => [shape, transposed])).toEqual([[[2, 3, 4], false]]);
    expect(issues).toEqual([]);
  });

  test.each([
    ["not JSON", "a, b"],
    ["no list", '{"a": 0}'],
    ["no names", "[1, 2]"],
    ["absent names", '["a", "c"]'],
    ["null", "null"],
  ])("an order that is %s is refused", (_, order) => {
    const issues: Issue[] = [];
    const file = safetensorsFile({ a: f32(1), b: f32(1) }, { metadata: { argument_order: order } });
    weightArguments(read(file).header!, undefined, true, issues, "w");
    expect(issues.length).toBeGreaterThan(0);
    expect(issues[0]!.path).toStartWith("w.__metadata__.argument_order");
  });
});

describe("lies of the file", () => {
  const file = safetensorsFile({ a: f32(2), b: f32(2) });

  test("a header longer than the file, than the format allows, than numbers go", () => {
    for (const length of [file.byteLength - 7, 100_000_001, 2 ** 62]) {
      const lying = file.slice();
      new DataView(lying.buffer).setBigUint64(0, BigInt(length), true);
      expect(read(lying).text).toContain("w: expected a header of at most");
    }
  });

  test("a file that is truncated at any byte", () => {
    for (let length = 0; length < file.byteLength; length++) {
      expect(read(file.subarray(0, length)).text).toStartWith("m: w");
    }
    expect(read(file.subarray(0, file.byteLength - 1)).text).toContain("is it truncated?");
  });

  test("bytes after the last tensor", () => {
    const longer = new Uint8Array(file.byteLength + 1);
    longer.set(file);
    expect(read(longer).text).toBe("m: w: expected 16 bytes of data, where the last tensor ends, received 17 bytes");
  });

  test("a header that is no JSON object", () => {
    const header = (text: string) => {
      const issues: Issue[] = [];
      parseHeader(new TextEncoder().encode(text), 0, "w", issues);
      return issues[0]?.expected;
    };
    expect(header(" {}")).toBe("a header that begins with '{'");
    expect(header("[]")).toBe("a header that begins with '{'");
    expect(header("")).toBe("a header that begins with '{'");
    expect(header("{")).toBe("a header of JSON in UTF-8");
    expect(header('{"a": '.repeat(1_000_000))).toBe("a header of JSON in UTF-8");
    expect(header('{"a":1,"a":2}')).toBe("each name once in the header");
    const issues: Issue[] = [];
    parseHeader(Uint8Array.of(0x7b, 0xff, 0x7d), 0, "w", issues);
    expect(issues[0]!.expected).toBe("a header of JSON in UTF-8");
  });
});

describe("lies of a tensor", () => {
  test.each<[string, Record<string, unknown>, string]>([
    ["dtype larger", { dtype: "F64" }, "w.a.data_offsets: expected 16 bytes, as F64 [2] has, received 8 bytes"],
    ["dtype missing", { dtype: undefined }, "w.a.dtype: expected a dtype"],
    ["dtype no string", { dtype: 1 }, "w.a.dtype: expected a dtype"],
    ["shape larger", { shape: [3] }, "w.a.data_offsets: expected 12 bytes"],
    ["shape negative", { shape: [-2] }, "w.a.shape[0]: expected a whole number >= 0, received -2"],
    ["shape fractional", { shape: [2.5] }, "w.a.shape[0]"],
    ["shape no list", { shape: 2 }, "w.a.shape: expected a list of sizes"],
    ["shape beyond 2^53", { shape: [2 ** 40, 2 ** 40] }, "w.a.shape: expected a size in bytes below 2^53"],
    ["shape beyond 2^53, times zero", { shape: [2 ** 40, 2 ** 40, 0] }, "w.a.shape: expected a size in bytes below"],
    ["a size beyond 2^53", { shape: [2 ** 60] }, "w.a.shape[0]: expected a whole number"],
    ["offsets reversed", { data_offsets: [8, 0] }, "w.a.data_offsets: expected [begin, end] with begin <= end"],
    ["offsets negative", { data_offsets: [-8, 0] }, "w.a.data_offsets[0]"],
    [
      "offsets outside",
      { data_offsets: [8, 16] },
      "an end within the file's 8 bytes of data (is it truncated?), received 16",
    ],
    ["one offset", { data_offsets: [8] }, "w.a.data_offsets: expected [begin, end]"],
    ["three offsets", { data_offsets: [0, 8, 9] }, "w.a.data_offsets: expected [begin, end]"],
    ["offsets no list", { data_offsets: "0-8" }, "w.a.data_offsets: expected [begin, end]"],
  ])("%s", (_, change, expected) => {
    expect(tampered(change)).toContain(expected);
  });

  test("tensors and metadata that are no mappings, metadata that is no text", () => {
    expect(refusal({}, { tamper: () => ({ a: 1 }) })).toContain("w.a: expected a tensor");
    expect(refusal({}, { tamper: () => ({ __metadata__: [] }) })).toContain("w.__metadata__: expected a mapping");
    expect(refusal({}, { tamper: () => ({ __metadata__: { a: 1 } }) })).toContain(
      "w.__metadata__.a: expected a string",
    );
  });
});

describe("lies of tensors about each other", () => {
  const three = { a: f32(2), b: f32(2), c: f32(2) };
  const at = (offsets: Record<string, [number, number]>) =>
    refusal(three, {
      tamper: (header) =>
        Object.fromEntries(
          Object.entries(header).map(([name, entry]) => [name, { ...(entry as object), data_offsets: offsets[name] }]),
        ),
    });

  test("an overlap, a gap, a gap at the start", () => {
    expect(at({ a: [0, 8], b: [4, 12], c: [16, 24] })).toBe(
      "m: w.b.data_offsets: expected a begin of 8, received 4: an overlap with the tensor before it\n" +
        "m: w.c.data_offsets: expected a begin of 12, received 16: a gap after the tensor before it",
    );
    expect(at({ a: [8, 16], b: [16, 24], c: [16, 24] })).toContain(
      "w.a.data_offsets: expected a begin of 0, received 8",
    );
  });

  test("all in one place", () => {
    expect(at({ a: [0, 8], b: [0, 8], c: [0, 8] })).toContain("expected 8 bytes of data, where the last tensor ends");
  });
});

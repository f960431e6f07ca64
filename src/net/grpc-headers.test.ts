// The fields that gRPC gives a meaning: timeouts, messages, content types, metadata.

import { expect, test } from "bun:test";
import { isGrpcContentType, parseTimeoutNs, percentEncode } from "./grpc-headers.ts";
import { Metadata, metadataValue } from "./metadata.ts";

test("grpc-timeout", () => {
  const cases: [text: string, ns: number | undefined][] = [
    ["1H", 3600e9],
    ["2M", 120e9],
    ["3S", 3e9],
    ["4m", 4e6],
    ["5u", 5e3],
    ["99999999n", 99999999],
    ["0n", 0],
    ["", undefined],
    ["S", undefined],
    ["5", undefined],
    ["-1S", undefined],
    ["1.5S", undefined],
    ["123456789S", undefined],
    ["1s", undefined],
    ["1 S", undefined],
  ];
  for (const [text, ns] of cases) expect([text, parseTimeoutNs(text)]).toEqual([text, ns]);
});

test("grpc-message is percent-encoded UTF-8 and bounded", () => {
  expect(percentEncode("plain text, with ~")).toBe("plain text, with ~");
  expect(percentEncode("100% \n\u00e9\u{1f600}")).toBe("100%25 %0A%C3%A9%F0%9F%98%80");
  const long = percentEncode("\u00e9".repeat(4000));
  expect(long.length).toBeLessThanOrEqual(4096);
  expect(decodeURIComponent(long)).toBe("\u00e9".repeat(long.length / 6));
});

test("content types", () => {
  const good = ["application/grpc", "application/grpc+proto", "APPLICATION/GRPC", "application/grpc; charset=utf-8"];
  const bad = [undefined, "", "application/json", "application/grpc+json", "application/grpc-web", "text/plain"];
  for (const value of good) expect([value, isGrpcContentType(value)]).toEqual([value, true]);
  for (const value of bad) expect([value, isGrpcContentType(value)]).toEqual([value, false]);
});

test("metadata by name, text and bytes", () => {
  const metadata = new Metadata(["a", "1", "b-bin", "AAEC,/w", "a", "2", "b-bin", "AA=="]);
  expect(metadata.get("a")).toBe("1");
  expect(metadata.get("1")).toBeUndefined();
  expect(metadata.all("a")).toEqual(["1", "2"]);
  expect(metadata.bytes("b-bin")).toEqual([new Uint8Array([0, 1, 2]), new Uint8Array([255]), new Uint8Array([0])]);
  expect(metadataValue("b-bin", new Uint8Array([255]))).toBe("/w");
  expect(() => metadataValue("b", new Uint8Array([255]))).toThrow("-bin");
});

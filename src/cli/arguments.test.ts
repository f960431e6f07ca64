// Command lines: every form that works, every mistake with its message.

import { expect, test } from "bun:test";
import { type Arguments, type Command, helpOf, parseArguments, UsageError } from "./arguments.ts";

const command: Command = {
  usage: "DIR [flags]",
  words: [1, 2],
  flags: {
    "grpc-port": { value: "PORT", help: "Port." },
    input: { value: "NAME=VALUE", multiple: true, help: "Input." },
    strict: { help: "Strict." },
  },
  run: async () => 0,
};

const parse = (...argv: string[]) => parseArguments(command, argv) as Arguments;

test("words, values with a space or '=', repeated flags, and booleans", () => {
  const args = parse("dir", "--grpc-port=1", "--input", "a=1", "--input=b=2=3", "--strict", "more");
  expect(args.words).toEqual(["dir", "more"]);
  expect(args.text("grpc-port")).toBe("1");
  expect(args.texts("input")).toEqual(["a=1", "b=2=3"]);
  expect(args.has("strict")).toBe(true);
  expect(parse("dir", "--strict=false").has("strict")).toBe(false);
  expect(parse("dir", "--strict=false").given("strict")).toBe(true);
  expect(parse("dir").given("strict")).toBe(false);
});

test.each([
  [["dir", "--grpc-prot", "1"], "unknown flag '--grpc-prot', did you mean '--grpc-port'?"],
  [["dir", "--zzz"], "unknown flag '--zzz'"],
  [["dir", "-x"], "unknown flag '-x'"],
  [["dir", "--grpc-port"], "--grpc-port needs a value: --grpc-port PORT"],
  [["dir", "--grpc-port", "--strict"], "--grpc-port needs a value: --grpc-port PORT"],
  [["dir", "--grpc-port="], "--grpc-port needs a value"],
  [["dir", "--grpc-port=1", "--grpc-port=2"], "--grpc-port is given twice"],
  [["dir", "--strict=maybe"], "--strict is true or false, not 'maybe'"],
  [[], "too few arguments: expected DIR [flags]"],
  [["a", "b", "c"], "unexpected argument 'c'"],
])("%p is wrong usage", (argv, message) => {
  expect(() => parse(...argv)).toThrow(UsageError);
  expect(() => parse(...argv)).toThrow(message);
});

test("help is asked for anywhere, and shows every flag", () => {
  expect(parseArguments(command, ["dir", "--help"])).toBe("help");
  expect(parseArguments(command, ["-h"])).toBe("help");
  const help = helpOf("demo", "Does it.", command);
  for (const shown of ["xlaserver demo DIR [flags]", "Does it.", "--grpc-port PORT", "--strict", "--help"]) {
    expect(help).toContain(shown);
  }
});

// The small protobuf reader and writer: against bytes from the protobuf documentation, and against damage.

import { describe, expect, test } from "bun:test";
import { ProtoWriter, protoFields, protoIntegers, protoMessages } from "./protobuf.ts";

const hex = (text: string) => Uint8Array.from(text.split(" "), (byte) => Number.parseInt(byte, 16));

// The examples of https://protobuf.dev/programming-guides/encoding/
test("varints, strings, nested messages and packed integers, as documented", () => {
  expect([...protoFields(hex("08 96 01"))]).toEqual([{ number: 1, value: 150 }]);
  const [text] = protoMessages(hex("12 07 74 65 73 74 69 6e 67"), 2);
  expect(new TextDecoder().decode(text)).toBe("testing");
  const [inner] = protoMessages(hex("1a 03 08 96 01"), 3);
  expect(protoIntegers(inner!, 1)).toEqual([150]);
  expect(protoIntegers(hex("32 06 03 8e 02 9e a7 05"), 6)).toEqual([3, 270, 86942]);
});

test("what is written is read, negative integers and long fields included", () => {
  const long = new Uint8Array(300).fill(7);
  const message = new ProtoWriter()
    .varint(1, -1)
    .varint(1, 2 ** 40)
    .bytes(100, long)
    .text(3, "é")
    .finish();
  expect(protoIntegers(message, 1)).toEqual([-1, 2 ** 40]);
  expect(protoMessages(message, 100)).toEqual([long]);
  expect(new TextDecoder().decode(protoMessages(message, 3)[0])).toBe("é");
});

test("fixed-width fields are skipped by those who ask for others", () => {
  const message = hex("0d 00 00 80 3f 11 00 00 00 00 00 00 f0 3f 18 05");
  expect(protoIntegers(message, 3)).toEqual([5]);
  expect([...protoFields(message)].map(({ value }) => value)).toEqual([1, 1, 5]);
});

describe("damaged bytes are DATA_LOSS, never a read past the end", () => {
  for (const [what, bytes] of [
    ["a length past the end", "12 07 74 65"],
    ["a huge length", "12 ff ff ff ff ff ff ff ff 7f"],
    ["a negative length", "12 ff ff ff ff ff ff ff ff ff 01"],
    ["a varint cut off", "08 96"],
    ["a varint without end", "08 ff ff ff ff ff ff ff ff ff ff 01"],
    ["a group", "0b"],
    ["a fixed field cut off", "11 00 00"],
  ] as const) {
    test(what, () => {
      expect(() => [...protoFields(hex(bytes))]).toThrow(/not a protobuf message/);
    });
  }
});

// Frames come out the same however their bytes are cut, and breaches end with the right code.

import { expect, test } from "bun:test";
import { FrameReader } from "./frame-reader.ts";
import { ConnectionError, H2_ERROR, PREFACE } from "./frames.ts";

function frame(type: number, flags: number, streamId: number, payload: Uint8Array | string): Uint8Array {
  const body = typeof payload === "string" ? Buffer.from(payload) : payload;
  const head = Buffer.alloc(9);
  head.writeUIntBE(body.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(streamId, 5);
  return Buffer.concat([head, body]);
}

/** What a reader hears, with the pieces of each DATA frame joined, so that cuts make no difference. */
function recorder(controlBytesMax = 100) {
  const heard: string[] = [];
  let data = "";
  const reader = new FrameReader(
    {
      dataFrame: (id, flags, bytes) => heard.push(`data ${id} flags ${flags} bytes ${bytes}`),
      dataPiece: (id, bytes, start, end, last, endStream) => {
        data += Buffer.from(bytes.subarray(start, end)).toString();
        if (!last) return;
        heard.push(`data ${id} ${JSON.stringify(data)}${endStream ? " end" : ""}`);
        data = "";
      },
      frame: (type, flags, id, bytes, start, end) =>
        heard.push(`frame ${type} ${flags} ${id} ${Buffer.from(bytes.subarray(start, end)).toString()}`),
    },
    true,
    1000,
    controlBytesMax,
  );
  return { heard, reader };
}

const CONVERSATION = Buffer.concat([
  PREFACE,
  frame(4, 0, 0, ""),
  frame(1, 4, 1, "headers"),
  frame(0, 0, 1, "hello"),
  frame(0, 8, 1, "\x03padded\0\0\0"),
  frame(0, 9, 1, "\x02\0\0"),
  frame(0, 0, 3, ""),
  frame(99, 7, 0x80000005, "unknown"),
  frame(0, 1, 3, "end"),
  frame(6, 0, 0, "12345678"),
]);
const HEARD = [
  "frame 4 0 0 ",
  "frame 1 4 1 headers",
  "data 1 flags 0 bytes 5",
  'data 1 "hello"',
  "data 1 flags 8 bytes 10",
  'data 1 "padded"',
  "data 1 flags 9 bytes 3",
  'data 1 "" end',
  "data 3 flags 0 bytes 0",
  'data 3 ""',
  "frame 99 7 5 unknown",
  "data 3 flags 1 bytes 3",
  'data 3 "end" end',
  "frame 6 0 0 12345678",
];

test("in one piece", () => {
  const { heard, reader } = recorder();
  reader.read(CONVERSATION);
  expect(heard).toEqual(HEARD);
});

test("cut in two at every byte", () => {
  for (let cut = 0; cut <= CONVERSATION.length; cut++) {
    const { heard, reader } = recorder();
    reader.read(CONVERSATION.subarray(0, cut));
    reader.read(CONVERSATION.subarray(cut));
    expect({ cut, heard }).toEqual({ cut, heard: HEARD });
  }
});

test("byte by byte, and by threes", () => {
  for (const step of [1, 3]) {
    const { heard, reader } = recorder();
    for (let at = 0; at < CONVERSATION.length; at += step) reader.read(CONVERSATION.subarray(at, at + step));
    expect(heard).toEqual(HEARD);
  }
});

test("breaches end the connection with their code", () => {
  const cases: [bytes: Uint8Array, code: number][] = [
    [Buffer.from("GET / HTTP/1.1\r\n"), H2_ERROR.PROTOCOL_ERROR],
    [Buffer.concat([PREFACE, frame(0, 0, 1, new Uint8Array(1001))]), H2_ERROR.FRAME_SIZE_ERROR],
    [Buffer.concat([PREFACE, frame(1, 4, 1, new Uint8Array(101))]), H2_ERROR.FRAME_SIZE_ERROR],
    [Buffer.concat([PREFACE, frame(0, 8, 1, "")]), H2_ERROR.FRAME_SIZE_ERROR],
    [Buffer.concat([PREFACE, frame(0, 8, 1, "\x05abc")]), H2_ERROR.PROTOCOL_ERROR],
  ];
  for (const [bytes, code] of cases) {
    let thrown: unknown;
    try {
      recorder().reader.read(bytes);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(ConnectionError);
    expect((thrown as ConnectionError).code).toBe(code as never);
  }
});

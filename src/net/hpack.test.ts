// HPACK against RFC 7541's own vectors, against node:http2's encoder, and against hostile blocks.

import { describe, expect, test } from "bun:test";
import http2 from "node:http2";
import net from "node:net";
import { HpackDecoder, HpackError } from "./hpack-decoder.ts";
import { encodeHeaderBlock } from "./hpack-encoder.ts";
import { huffmanBytes, huffmanDecode, huffmanEncode } from "./huffman.ts";

type Field = [string, string];

const bytesOf = (hex: string) => new Uint8Array(Buffer.from(hex.replaceAll(" ", ""), "hex"));

function decode(decoder: HpackDecoder, block: Uint8Array): Field[] {
  const fields: Field[] = [];
  decoder.decode(block, 0, block.length, (name, value) => fields.push([name, value]));
  return fields;
}

/** Linear congruential numbers in [0, 1), the same for the same seed. */
function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const FIRST: Field[] = [
  [":method", "GET"],
  [":scheme", "http"],
  [":path", "/"],
  [":authority", "www.example.com"],
];
const SECOND: Field[] = [...FIRST, ["cache-control", "no-cache"]];
const THIRD: Field[] = [
  [":method", "GET"],
  [":scheme", "https"],
  [":path", "/index.html"],
  [":authority", "www.example.com"],
  ["custom-key", "custom-value"],
];
const DATE_1 = "Mon, 21 Oct 2013 20:13:21 GMT";
const DATE_2 = "Mon, 21 Oct 2013 20:13:22 GMT";
const COOKIE = "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
const RESPONSES: Field[][] = [
  [
    [":status", "302"],
    ["cache-control", "private"],
    ["date", DATE_1],
    ["location", "https://www.example.com"],
  ],
  [
    [":status", "307"],
    ["cache-control", "private"],
    ["date", DATE_1],
    ["location", "https://www.example.com"],
  ],
  [
    [":status", "200"],
    ["cache-control", "private"],
    ["date", DATE_2],
    ["location", "https://www.example.com"],
    ["content-encoding", "gzip"],
    ["set-cookie", COOKIE],
  ],
];

// RFC 7541, appendix C: sequences of blocks on one connection each.
const VECTORS: { name: string; tableBytes: number; blocks: [hex: string, fields: Field[]][] }[] = [
  {
    name: "C.2.1",
    tableBytes: 4096,
    blocks: [["400a637573746f6d2d6b65790d637573746f6d2d686561646572", [["custom-key", "custom-header"]]]],
  },
  { name: "C.2.2", tableBytes: 4096, blocks: [["040c2f73616d706c652f70617468", [[":path", "/sample/path"]]]] },
  { name: "C.2.3", tableBytes: 4096, blocks: [["100870617373776f726406736563726574", [["password", "secret"]]]] },
  { name: "C.2.4", tableBytes: 4096, blocks: [["82", [[":method", "GET"]]]] },
  {
    name: "C.3",
    tableBytes: 4096,
    blocks: [
      ["828684410f7777772e6578616d706c652e636f6d", FIRST],
      ["828684be58086e6f2d6361636865", SECOND],
      ["828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565", THIRD],
    ],
  },
  {
    name: "C.4",
    tableBytes: 4096,
    blocks: [
      ["828684418cf1e3c2e5f23a6ba0ab90f4ff", FIRST],
      ["828684be5886a8eb10649cbf", SECOND],
      ["828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf", THIRD],
    ],
  },
  {
    name: "C.5",
    tableBytes: 256,
    blocks: [
      [
        "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d546e1768747470733a2f2f7777772e6578616d706c652e636f6d",
        RESPONSES[0]!,
      ],
      ["4803333037c1c0bf", RESPONSES[1]!],
      [
        "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f3d4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076657273696f6e3d31",
        RESPONSES[2]!,
      ],
    ],
  },
  {
    name: "C.6",
    tableBytes: 256,
    blocks: [
      [
        "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3",
        RESPONSES[0]!,
      ],
      ["4883640effc1c0bf", RESPONSES[1]!],
      [
        "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
        RESPONSES[2]!,
      ],
    ],
  },
];

describe("RFC 7541, appendix C", () => {
  for (const { name, tableBytes, blocks } of VECTORS) {
    test(name, () => {
      const decoder = new HpackDecoder(tableBytes, 1024);
      for (const [hex, fields] of blocks) expect(decode(decoder, bytesOf(hex))).toEqual(fields);
    });
  }
});

describe("Huffman", () => {
  test("every string of one and two bytes comes back", () => {
    const coded = new Uint8Array(16);
    const plain = new Uint8Array(4);
    for (let first = 0; first < 256; first++) {
      for (let second = -1; second < 256; second += first % 8 === 0 ? 1 : 17) {
        const text = String.fromCharCode(first) + (second < 0 ? "" : String.fromCharCode(second));
        const end = huffmanEncode(text, coded, 0);
        expect(end).toBe(huffmanBytes(text));
        const count = huffmanDecode(coded, 0, end, plain);
        expect(Buffer.from(plain.subarray(0, Math.max(count, 0))).toString("latin1")).toBe(text);
      }
    }
  });

  test("padding of eight bits, of zeros, and EOS are refused", () => {
    const target = new Uint8Array(16);
    for (const hex of ["1fff", "18", "ffffffff", "3fffffff", "ffffffffff"]) {
      expect(huffmanDecode(bytesOf(hex), 0, bytesOf(hex).length, target)).toBe(-1);
    }
  });

  test("a target too small is refused", () => {
    const coded = new Uint8Array(64);
    const end = huffmanEncode("a".repeat(17), coded, 0);
    expect(huffmanDecode(coded, 0, end, new Uint8Array(16))).toBe(-1);
  });
});

describe("decoder limits", () => {
  const refused: [name: string, hex: string][] = [
    ["index 0", "80"],
    ["index beyond the tables", "be"],
    ["integer that never ends", "ff ff ff ff ff ff ff ff"],
    ["integer beyond any length", "ff ff ff ff ff 7f"],
    ["string longer than the block", "40 0a 61"],
    ["value missing", "40 01 61"],
    ["table size above the setting", "3f e2 1f"],
    ["table size after a field", "82 20"],
  ];
  for (const [name, hex] of refused) {
    test(name, () => {
      expect(() => decode(new HpackDecoder(4096, 1024), bytesOf(hex))).toThrow(HpackError);
    });
  }

  test("a table of size 0 holds nothing, and fields still decode", () => {
    const decoder = new HpackDecoder(4096, 1024);
    expect(decode(decoder, bytesOf("20 40016101 62"))).toEqual([["a", "b"]]);
    expect(() => decode(decoder, bytesOf("be"))).toThrow(HpackError);
  });

  test("many insertions leave the newest entries", () => {
    const decoder = new HpackDecoder(4096, 1024);
    for (let index = 0; index < 5000; index++) {
      const name = index.toString(16).padStart(4, "0");
      decode(decoder, bytesOf(`4004${Buffer.from(name).toString("hex")}0176`));
    }
    const last = (4999).toString(16);
    expect(decode(decoder, bytesOf("be"))).toEqual([[last, "v"]]);
    // 4096 / (4 + 1 + 32) = 110 entries fit.
    expect(decode(decoder, new Uint8Array([0xff, 61 + 110 - 127]))).toEqual([[(4999 - 109).toString(16), "v"]]);
    expect(() => decode(decoder, new Uint8Array([0xff, 61 + 111 - 127]))).toThrow(HpackError);
  });
});

test("random field lists come back from our own encoder", () => {
  for (let seed = 1; seed <= 200; seed++) {
    const next = random(seed);
    const fields = randomFields(next, 256);
    expect({ seed, fields: decode(new HpackDecoder(4096, 4096), encodeHeaderBlock(fields)) }).toEqual({ seed, fields });
  }
});

test("what node:http2 encodes, with its dynamic table, is what we decode", async () => {
  // node's client writes to a server that keeps the raw bytes; the frames are cut apart here, independently.
  const requests = Array.from({ length: 60 }, (_, index) => randomFields(random(index + 1), 128));
  const received: Uint8Array[] = [];
  const done = Promise.withResolvers<void>();
  const server = net.createServer((socket) => {
    socket.write(bytesOf("000000040000000000"));
    socket.on("data", (chunk: Buffer) => {
      received.push(new Uint8Array(chunk));
      if (headerBlocks(Buffer.concat(received)).length === requests.length) done.resolve();
    });
    socket.on("error", () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as net.AddressInfo;
  const session = http2.connect(`http://127.0.0.1:${port}`);
  session.on("error", () => {});
  for (const fields of requests) {
    const headers: Record<string, string> = { ":path": "/x" };
    for (const [name, value] of fields) headers[name] = value;
    session.request(headers).on("error", () => {});
  }
  await done.promise;
  session.destroy();
  server.close();
  const decoder = new HpackDecoder(4096, 4096);
  headerBlocks(Buffer.concat(received)).forEach((block, index) => {
    const decoded = Object.fromEntries(decode(decoder, block).filter(([name]) => !name.startsWith(":")));
    expect({ index, decoded }).toEqual({ index, decoded: Object.fromEntries(requests[index]!) });
  });
});

/** Fields with unique names, values of printable and high characters, some repeated between lists. */
function randomFields(next: () => number, valueMax: number): Field[] {
  const fields = new Map<string, string>();
  for (let count = 1 + Math.floor(next() * 8); count > 0; count--) {
    const name = `x-${Math.floor(next() * 12)}${next() < 0.2 ? "-longer-name" : ""}`;
    const length = Math.floor(next() * (next() < 0.2 ? valueMax : 12));
    let value = "v";
    for (let at = 0; at < length; at++) value += String.fromCharCode(0x21 + Math.floor(next() * (0x7e - 0x21)));
    fields.set(name, next() < 0.3 ? "same" : value);
  }
  return [...fields];
}

/** The payloads of the HEADERS frames behind a connection preface, padding and priority stripped. */
function headerBlocks(bytes: Buffer): Uint8Array[] {
  const blocks: Uint8Array[] = [];
  let at = 24;
  while (at + 9 <= bytes.length && at + 9 + bytes.readUIntBE(at, 3) <= bytes.length) {
    const length = bytes.readUIntBE(at, 3);
    const flags = bytes[at + 4]!;
    if (bytes[at + 3] === 1) {
      let start = at + 9;
      const padding = flags & 8 ? bytes[start++]! : 0;
      if (flags & 0x20) start += 5;
      blocks.push(new Uint8Array(bytes.subarray(start, at + 9 + length - padding)));
    }
    at += 9 + length;
  }
  return blocks;
}

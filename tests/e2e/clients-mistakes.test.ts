// Every mistake that a client can make in ModelInfer, on the running server: the status and the words it gets, and a
// server that lives on.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import {
  type ClientServer,
  failure,
  int64,
  type Request,
  START_MS_MAX,
  startClientServer,
  strings,
  tensor,
  text,
} from "../support/client-server.ts";
import { randomBytes } from "../support/infer-messages.ts";
import { Rng } from "../support/rng.ts";

let server: ClientServer;
beforeAll(async () => {
  server = await startClientServer();
}, START_MS_MAX);
afterAll(() => server?.[Symbol.asyncDispose]());

const x = (...shape: (number | bigint)[]) => tensor("x", "FP32", ...shape);
const zeros = (...lengths: number[]) => lengths.map((length) => new Uint8Array(length));
const region = { shared_memory_region: text("r") };

/** A request to an identity model of rows of three; `raw` are byte lengths. */
const ask = (inputs: Request["inputs"], raw: number[] = [], more: Request = {}): Request => {
  return { modelName: "identity_f32", inputs: inputs ?? [], rawInputContents: zeros(...raw), ...more };
};
const typed = (contents: Record<string, number[]>, dtype = "FP32", modelName = "identity_f32"): Request => ({
  modelName,
  inputs: [{ ...tensor("x", dtype, 1, 3), contents: contents as object }],
});

test.each<[string, Request, RegExp]>([
  ["no model name", {}, /^INVALID_ARGUMENT: model_name is empty$/],
  ["an unknown model", { modelName: "nobody" }, /^NOT_FOUND: .*'nobody'/],
  ["a model name with traversal", { modelName: "../bundles/simple" }, /^NOT_FOUND: /],
  ["an absolute model name", { modelName: "/etc" }, /^NOT_FOUND: /],
  ["a broken model", { modelName: "broken" }, /^UNAVAILABLE: .*'broken'.*executable_inputs/],
  [
    "fewer raw contents than inputs",
    ask([x(1), tensor("z", "FP32", 1)], [4]),
    /^INVALID_ARGUMENT: .*1 raw_input_contents for 2 inputs/,
  ],
  ["more raw contents than inputs", ask([x(1, 3)], [12, 12]), /^INVALID_ARGUMENT: .*2 raw_input_contents for 1 inputs/],
  ["an unknown datatype", ask([tensor("x", "FLOAT", 1, 3)], [12]), /^INVALID_ARGUMENT: .*unknown datatype 'FLOAT'/],
  ["no data", ask([x(1, 3)]), /^INVALID_ARGUMENT: .*'x': it has no data/],
  [
    "raw and typed data",
    { ...typed({ fp32Contents: [1, 2, 3] }), rawInputContents: zeros(12) },
    /^INVALID_ARGUMENT: .*both contents and raw_input_contents/,
  ],
  ["a negative extent", ask([x(-1, 3)], [12]), /^INVALID_ARGUMENT: .*axis 1 is negative/],
  ["a shape that overflows", ask([x(2n ** 62n, 4)], [0]), /^INVALID_ARGUMENT: .*cannot be counted/],
  ["zero rows", ask([x(0, 3)], [0]), /^INVALID_ARGUMENT: .*expected at least 1, received 0/],
  ["a zero extent of a fixed axis", ask([x(1, 0)], [0]), /^INVALID_ARGUMENT: .*axis 2 .*expected 3, received 0/],
  ["too few raw bytes", ask([x(2, 3)], [23]), /^INVALID_ARGUMENT: .*23 raw bytes, expected 24/],
  ["too many raw bytes", ask([x(2, 3)], [25]), /^INVALID_ARGUMENT: .*25 raw bytes, expected 24/],
  ["too few typed elements", typed({ fp32Contents: [1, 2] }), /^INVALID_ARGUMENT: .*3 elements, fp32_contents holds 2/],
  [
    "too many typed elements",
    typed({ fp32Contents: [1, 2, 3, 4] }),
    /^INVALID_ARGUMENT: .*3 elements, fp32_contents holds more/,
  ],
  ["the wrong list", typed({ intContents: [1, 2, 3] }), /^INVALID_ARGUMENT: .*belong in fp32_contents/],
  [
    "a typed element out of range",
    typed({ intContents: [1, 2, 200] }, "INT8", "identity_i8"),
    /^INVALID_ARGUMENT: .*element 2 is 200/,
  ],
  [
    "typed FP16",
    typed({ fp32Contents: [1, 2, 3] }, "FP16", "identity_f16"),
    /^INVALID_ARGUMENT: .*FP16 has no typed contents/,
  ],
  [
    "typed BF16",
    typed({ fp32Contents: [1, 2, 3] }, "BF16", "identity_bf16"),
    /^INVALID_ARGUMENT: .*BF16 has no typed contents/,
  ],
  [
    "an undeclared input",
    ask([tensor("z", "FP32", 1, 3)], [12]),
    /^INVALID_ARGUMENT: .*unknown input 'z', expected 'x'/,
  ],
  ["a missing input", ask([]), /^INVALID_ARGUMENT: .*missing input 'x'/],
  ["an input twice", ask([x(1, 3), x(1, 3)], [12, 12]), /^INVALID_ARGUMENT: .*'x' is given twice/],
  ["another dtype", ask([tensor("x", "INT32", 1, 3)], [12]), /^INVALID_ARGUMENT: .*'x'.*FP32.*INT32/],
  ["another rank", ask([x(3)], [12]), /^INVALID_ARGUMENT: .*'x'.*rank 2/],
  ["a scalar", ask([x()], [4]), /^INVALID_ARGUMENT: .*'x'.*rank 2/],
  ["another fixed axis", ask([x(1, 4)], [16]), /^INVALID_ARGUMENT: .*'x'.*axis 2 .*expected 3, received 4/],
  [
    "an unknown output",
    ask([x(1, 3)], [12], { outputs: [{ name: "z" }] }),
    /^INVALID_ARGUMENT: .*unknown output 'z', expected one of 'y'/,
  ],
  [
    "an output twice",
    ask([x(1, 3)], [12], { outputs: [{ name: "y" }, { name: "y" }] }),
    /^INVALID_ARGUMENT: .*'y' is given twice/,
  ],
  ["an input in shared memory", ask([{ ...x(1, 3), parameters: region }]), /^UNIMPLEMENTED: .*shared memory/],
  [
    "an output in shared memory",
    ask([x(1, 3)], [12], { outputs: [{ name: "y", parameters: region }] }),
    /^UNIMPLEMENTED: .*shared memory/,
  ],
  [
    "strings whose lengths lie",
    { ...strings("abc"), rawInputContents: [Uint8Array.of(200, 0, 0, 0, 65)] },
    /^INVALID_ARGUMENT: .*element 0 of 1: its length prefix says 200 bytes, 1 are left/,
  ],
  [
    "a hook that refuses",
    { ...strings("a"), parameters: { refuse: int64(1) } },
    /^INVALID_ARGUMENT: .*refused on request/,
  ],
  ["a hook that throws", { ...strings("a"), parameters: { fail: int64(1) } }, /^INTERNAL: .*failed on request/],
])("%s", async (_name, request, expected) => {
  expect(await failure(server.client.call("modelInfer", request))).toMatch(expected);
});

test("truncated and random protobuf is refused, and the server lives on", async () => {
  const rng = new Rng(17);
  const input = new BinaryWriter().tag(1, WireType.LengthDelimited).string("x").tag(3, WireType.Varint).int64(1);
  const whole = new BinaryWriter()
    .tag(1, WireType.LengthDelimited)
    .string("identity_f32")
    .tag(5, WireType.LengthDelimited)
    .bytes(input.finish())
    .tag(7, WireType.LengthDelimited)
    .bytes(new Uint8Array(12))
    .finish();
  const requests = Array.from(whole, (_, length) => whole.subarray(0, length));
  for (let index = 0; index < 300; index++) requests.push(randomBytes(rng, rng.below(80)));
  const outcomes = await Promise.all(requests.map((request) => failure(server.inferBytes(request))));
  for (const outcome of outcomes) expect(outcome).toMatch(/^(INVALID_ARGUMENT|NOT_FOUND): /);
  expect(outcomes.filter((outcome) => outcome.includes("malformed protobuf")).length).toBeGreaterThan(100);
  expect((await server.client.call("serverLive", {})).live).toBe(true);
});

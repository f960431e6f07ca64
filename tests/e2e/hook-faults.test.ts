// Hooks that throw, loop, eat memory, end their thread or return nonsense: each costs its own request, with a status and
// words that name the model, the hook and what was expected; requests beside it are served, and so is whoever comes next.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { type BundleRecipe, type TempRepository, tempRepository } from "../support/bundles.ts";
import { failure, tensor, text } from "../support/client-server.ts";
import { type KserveClient, kserveClient } from "../support/kserve-client.ts";
import { startWorker, type TestWorker } from "../support/worker.ts";

const START_MS_MAX = 180_000;
const TIME_LIMIT_MS = 400;
const MEMORY_BOUND_BYTES = 128 * 2 ** 20;

// ---- two models whose hooks do as the request's parameters say; without any they add 1 before and 2 after

const HOOKS = `import { InvalidInput, registerModel } from "xlaserver";

const eaten: Uint8Array[] = [];

const DEEDS: Record<string, (tensors: any[]) => unknown> = {
  "throw": () => { throw new Error("the kettle boiled over"); },
  "throw a string": () => { throw "just words"; },
  "throw nothing": () => { throw undefined; },
  "throw what can't be shown": () => { throw { get message() { throw 1; }, toString() { throw 2; } }; },
  "reject": () => Promise.reject(new Error("rejected later")),
  "refuse": () => { throw new InvalidInput("seven is too many"); },
  "overflow": () => { const dig = (): number => 1 + dig(); return dig(); },
  "loop": () => { for (;;); },
  "wait": () => new Promise(() => {}),
  "eat": () => { for (;;) eaten.push(new Uint8Array(8 << 20).fill(1)); },
  "exit": () => process.exit(7),
  "stray": (tensors) => { setTimeout(() => { throw new Error("too late"); }); return tensors; },
  "nothing": () => undefined,
  "a number": () => 5,
  "an object": (tensors) => tensors[0],
  "null": () => [null],
  "nameless": ([{ name, ...rest }]) => [rest],
  "another name": ([one]) => [{ ...one, name: "z" }],
  "no tensors": () => [],
  "twice": ([one]) => [one, one],
  "one too many": ([one]) => [one, { ...one, name: "z" }],
  "no dtype": ([one]) => [{ ...one, dtype: "f31" }],
  "another dtype": ([one]) => [{ ...one, dtype: "f64", data: Float64Array.from(one.data) }],
  "an array of numbers": ([one]) => [{ ...one, data: [...one.data] }],
  "too few elements": ([one]) => [{ ...one, data: one.data.subarray(1) }],
  "a negative extent": ([one]) => [{ ...one, shape: [-1, 3] }],
  "a fraction of a row": ([one]) => [{ ...one, shape: [1 / 3, 3] }],
  "an endless shape": ([one]) => [{ ...one, shape: [2 ** 40, 2 ** 40] }],
  "no rows": ([one]) => [{ ...one, shape: [0, 3], data: new Float32Array(0) }],
  "another width": ([one]) => [{ ...one, shape: [3, 1] }],
  "another rank": ([one]) => [{ ...one, shape: [3] }],
  "a detached buffer": ([one]) => { structuredClone(one.data.buffer, { transfer: [one.data.buffer] }); return [one]; },
  "a trap": () => new Proxy([], { get() { throw new Error("trapped"); } }),
};

const act = (deed: unknown, tensors: any[], delta: number) =>
  typeof deed === "string" ? DEEDS[deed]!(tensors) : [{ ...tensors[0], data: tensors[0].data.map((x: number) => x + delta) }];

registerModel({
  preprocess: (inputs, { parameters, state }) => {
    if (parameters.state) state.odd = () => {};
    return act(parameters.before, inputs, 1) as any;
  },
  postprocess: (outputs, { parameters }) => act(parameters.after, outputs, 2) as any,
});
`;

const HOOKED: BundleRecipe = {
  files: {
    "manifest.yaml": `format_version: "3.0"
executable_inputs: [{name: x, dtype: f32, shape: nd, dims: {d: 3}}]
executable_outputs: [{name: x, dtype: f32, shape: nd, dims: {d: 3}}]
batching: {compiled_batch_sizes: [1, 4]}
hooks: {time_limit_ms: ${TIME_LIMIT_MS}}
`,
    "model.b1.mlir":
      "module { func.func @main(%x: tensor<1x3xf32>) -> tensor<1x3xf32> { return %x : tensor<1x3xf32> } }",
    "model.b4.mlir":
      "module { func.func @main(%x: tensor<4x3xf32>) -> tensor<4x3xf32> { return %x : tensor<4x3xf32> } }",
    "model.ts": HOOKS,
  },
};

let repository: TempRepository;
let worker: TestWorker;
let client: KserveClient;

beforeAll(async () => {
  repository = tempRepository({ odd: HOOKED, even: HOOKED, identity_fp32: { from: "identity_fp32" } });
  const environment = { XLASERVER_HOOKS_MEMORY_BOUND_BYTES: String(MEMORY_BOUND_BYTES) };
  worker = await startWorker({ repository: repository.directory, environment });
  client = kserveClient(worker.address);
}, START_MS_MAX);

afterAll(async () => {
  client?.[Symbol.dispose]();
  await worker?.[Symbol.asyncDispose]();
  repository?.[Symbol.dispose]();
});

/** [10, 20, 30] through a model with hooks, which do as `deeds` say, and what came of it. */
async function hooked(modelName: string, deeds: Record<string, string> = {}, options = {}): Promise<number[]> {
  const parameters = Object.fromEntries(Object.entries(deeds).map(([hook, deed]) => [hook, text(deed)]));
  const inputs = [{ ...tensor("x", "FP32", 1, 3), contents: { fp32Contents: [10, 20, 30] } }];
  const { rawOutputContents } = await client.call("modelInfer", { modelName, parameters, inputs }, options);
  return [...new Float32Array(rawOutputContents[0]!.slice().buffer)];
}

async function plain(): Promise<number[]> {
  const fp32Contents = new Array(16).fill(5);
  const inputs = [{ ...tensor("INPUT0", "FP32", 1, 16), contents: { fp32Contents } }];
  const { rawOutputContents } = await client.call("modelInfer", { modelName: "identity_fp32", inputs });
  return [...new Float32Array(rawOutputContents[0]!.slice().buffer)];
}

/** Requests of all three models while `outcome` is under way, and once more after it: all are served rightly. */
async function othersAreServed(outcome: Promise<unknown>): Promise<void> {
  const round = () => Promise.all([hooked("odd"), hooked("even"), plain(), hooked("odd")]);
  const beside = round();
  await outcome;
  for (const [first, other, bare, second] of [await beside, await round()]) {
    expect(first).toEqual([13, 23, 33]);
    expect(other).toEqual([13, 23, 33]);
    expect(second).toEqual([13, 23, 33]);
    expect(bare).toEqual(new Array(16).fill(5));
  }
}

const EITHER: readonly (readonly [string, RegExp])[] = [
  ["throw", /the kettle boiled over$/],
  ["throw a string", /just words$/],
  ["throw nothing", /undefined$/],
  ["throw what can't be shown", /it threw something that cannot be shown$/],
  ["reject", /rejected later$/],
  ["overflow", /Maximum call stack size exceeded/],
  ["loop", /ran longer than its limit of 400 ms \(hooks\.time_limit_ms\)/],
  ["wait", /ran longer than its limit of 400 ms \(hooks\.time_limit_ms\)/],
  ["eat", /memory grew by \d+ MiB while it ran, beyond the bound of 128 MiB/],
  ["exit", /ended the thread \(exit code 7\)/],
  ["nothing", /expected an array of tensors, received undefined$/],
  ["a number", /expected an array of tensors, received number 5$/],
  ["an object", /expected an array of tensors, received Object$/],
  ["null", /tensor 0: expected \{name, dtype, shape, data\}, received null$/],
  ["nameless", /tensor 0: name: expected a string, received undefined$/],
  ["twice", /tensor 'x': expected once, received twice$/],
  ["no dtype", /tensor 'x': dtype: expected one of .*f32.*, received 'f31'$/],
  ["an array of numbers", /tensor 'x': data: expected Float32Array \(f32\), received Array$/],
  ["too few elements", /tensor 'x': data: expected 3 elements for shape \[1,3\], received 2$/],
  ["a negative extent", /tensor 'x': shape: expected whole extents.*received \[-1,3\]$/],
  ["a fraction of a row", /tensor 'x': shape: expected whole extents.*received \[0\.333/],
  [
    "an endless shape",
    /tensor 'x': shape: expected whole extents.*below 2\^53, received \[1099511627776,1099511627776\]$/,
  ],
  ["a detached buffer", /tensor 'x': data: expected 3 elements for shape \[1,3\], received a detached buffer$/],
  ["a trap", /trapped$/],
  ["another name", /'x'/],
  ["no tensors", /'x'/],
];

const BEFORE: readonly (readonly [string, RegExp])[] = [
  ["one too many", /'z'/],
  ["another dtype", /input 'x': expected dtype FP32, received FP64$/],
  ["no rows", /'x'|rows/],
  ["another width", /'x'.*\[3,1\]/],
  ["another rank", /'x'.*rank/],
];

const cases = [
  ...[...EITHER, ...BEFORE].map(([deed, says]) => ["preprocess", deed, { before: deed }, says] as const),
  ...EITHER.map(([deed, says]) => ["postprocess", deed, { after: deed }, says] as const),
  [
    "preprocess",
    "leave a state that can't be copied",
    { state: "function" },
    /context\.state.*structuredClone/,
  ] as const,
];

test.each(cases)("%s: %s", async (hook, _deed, parameters, says) => {
  const outcome = failure(hooked("odd", parameters));
  await othersAreServed(outcome);
  expect(await outcome).toStartWith(`INTERNAL: model 'odd': ${hook} hook: `);
  expect(await outcome).toMatch(says);
});

test("InvalidInput is the client's fault", async () => {
  const outcome = failure(hooked("odd", { before: "refuse" }));
  await othersAreServed(outcome);
  expect(await outcome).toBe("INVALID_ARGUMENT: model 'odd': seven is too many");
});

test("what a hook throws after its call is logged and hurts nobody", async () => {
  const outcome = hooked("odd", { before: "stray" });
  await othersAreServed(outcome);
  expect(await outcome).toEqual([12, 22, 32]);
  const line = await worker.logged("hook error outside of any call", ({ error }) => error === "too late");
  expect(line.models).toContain("odd");
});

test("a deadline ends the wait for a hook before its time limit", async () => {
  const outcome = failure(hooked("odd", { before: "wait" }, { deadline: Date.now() + 50 }));
  await othersAreServed(outcome);
  expect(await outcome).toStartWith("DEADLINE_EXCEEDED");
});

test("hooks that block every thread at once hold the others up, no longer than their limit", async () => {
  const deeds = ["loop", "wait", "exit", "throw", "loop", "eat", "wait", "exit"];
  const outcomes = deeds.map((before, index) => failure(hooked(index % 2 ? "odd" : "even", { before })));
  await othersAreServed(Promise.all(outcomes));
  for (const outcome of await Promise.all(outcomes)) expect(outcome).toStartWith("INTERNAL: model ");
});

test("threads that were ended or lost are logged; the server has lived through all of it", async () => {
  const logged = (event: string, says: RegExp) =>
    expect(
      worker.log.some((line) => line.event === event && line.model === "odd" && says.test(String(line.error))),
    ).toBe(true);
  logged("hook ended", /limit of 400 ms/);
  logged("hook ended", /memory grew/);
  logged("hook thread ended", /exit code 7/);
  expect(worker.log.filter(({ level }) => level === "error")).toEqual([]);
  expect((await client.call("serverReady", {})).ready).toBe(true);
  const { models } = await client.call("repositoryIndex", { ready: true });
  expect(models.length).toBe(3);
});

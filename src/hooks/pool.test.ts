// The pool with real threads and real model.ts files: what hooks see and return, and every way in which one misbehaves.

import { describe, expect, test } from "bun:test";
import {
  bundle,
  failure,
  floats,
  IDENTITY,
  load,
  loadText,
  pool,
  request,
  tensor,
  x,
} from "../../tests/support/hook-bundles.ts";
import { ServerError } from "../base/errors.ts";
import type { ParameterValue } from "../call/call.ts";
import { decodeStrings, encodeStrings } from "../tensor/strings.ts";
import type { HookSet } from "./pool.ts";

describe("hooks that behave", () => {
  test("see their tensors, context and files, and share state", async () => {
    using owner = pool();
    const directory = bundle({
      "model.ts": `
        import words from "./words.txt" with { type: "text" };
        import { double } from "./lib/double.ts";
        registerModel({
          preprocess(inputs, context) {
            const [texts, half] = inputs;
            context.state.lengths = texts.data.map((text) => text.length);
            context.state.about = {
              parameters: context.parameters, id: context.requestId, deadline: context.deadlineMs,
              directory: context.bundleDirectory, aborted: context.signal.aborted, words: words.trim(),
              half: half.data.constructor.name + half.data[0], dtypes: inputs.map((input) => input.dtype),
            };
            return [{ name: "n", dtype: "i64", shape: [2, 1], data: BigInt64Array.from(texts.data, (text) => BigInt(double(text.length))) }];
          },
          async postprocess(outputs, { state }) {
            await null;
            return [{ name: "told", dtype: "bytes", shape: [], data: [new TextEncoder().encode(JSON.stringify(state))] }, ...outputs];
          },
        });`,
      "words.txt": "hello\n",
      "lib/double.ts": "export const double = (n: number): number => 2 * n;",
    });
    using set = await load(owner, directory);
    expect([set.hasPreprocess, set.hasPostprocess]).toEqual([true, true]);
    const strings = encodeStrings([Buffer.from("ab"), Buffer.from("größe")]);
    const inputs = [tensor("texts", "bytes", [2], strings), tensor("half", "bf16", [1], Uint16Array.of(0x3f80))];
    const parameters = new Map<string, ParameterValue>([
      ["k", "v"],
      ["flag", true],
    ]);
    const asked = request({ parameters, requestId: "r1", deadlineMs: 123 });
    const made = await set.preprocess(inputs, asked).done;
    expect(made.tensors.map(({ name, dtype, shape }) => ({ name, dtype, shape }))).toEqual([
      { name: "n", dtype: "i64", shape: [2, 1] },
    ]);
    expect([...new BigInt64Array(made.tensors[0]!.data.contiguous().slice().buffer)]).toEqual([4n, 14n]);
    const answer = await set.postprocess([x(1.5)], { ...asked, state: made.state }).done;
    expect(floats(answer.tensors[1])).toEqual([1.5]);
    expect(JSON.parse(Buffer.from(decodeStrings(answer.tensors[0]!.data, 1)[0]!).toString())).toEqual({
      lengths: [2, 7],
      about: {
        parameters: { k: "v", flag: true },
        id: "r1",
        deadline: 123,
        directory,
        aborted: false,
        words: "hello",
        half: `Uint16Array${0x3f80}`,
        dtypes: ["bytes", "bf16"],
      },
    });
    expect(owner.counters).toMatchObject({ completed: 2, failed: 0, threads: 1, running: 0, waiting: 0 });
  });

  test("one that is absent is known, and the last registration wins", async () => {
    using owner = pool();
    using set = await loadText(owner, `registerModel({}); registerModel({ postprocess: (outputs) => outputs });`);
    expect([set.hasPreprocess, set.hasPostprocess]).toEqual([false, true]);
  });

  test("the tokenizer comes with the server", async () => {
    using owner = pool();
    using set = await loadText(
      owner,
      `import { BertTokenizer } from "xlaserver/text";
       const tokenizer = BertTokenizer.fromVocab("[PAD]\\n[UNK]\\n[CLS]\\n[SEP]\\nhi\\n");
       registerModel({ preprocess([texts]) {
         const { inputIds, shape } = tokenizer.encode(texts.data);
         return [{ name: "input_ids", dtype: "i64", shape, data: inputIds }];
       } });`,
    );
    const texts = tensor("texts", "bytes", [1], encodeStrings([Buffer.from("hi Hi")]));
    const { tensors } = await set.preprocess([texts], request()).done;
    expect([...new BigInt64Array(tensors[0]!.data.contiguous().slice().buffer)]).toEqual([2n, 4n, 4n, 3n]);
  });

  test("many calls on several threads all come back, each with its own", async () => {
    using owner = pool({ threads: 3 });
    using set = await loadText(
      owner,
      "registerModel({ preprocess: async (inputs) => { await null; return inputs; } });",
    );
    const made = await Promise.all(Array.from({ length: 300 }, (_, i) => set.preprocess([x(i)], request()).done));
    expect(made.map(({ tensors }) => floats(tensors[0])[0])).toEqual(Array.from({ length: 300 }, (_, i) => i));
    expect(owner.counters).toMatchObject({ completed: 300, threads: 3 });
  });

  test("any buffer will do, and any thenable", async () => {
    using owner = pool();
    using set = await loadText(
      owner,
      `const tensor = (name, buffer) => {
         const data = new Float32Array(buffer, 0, 2);
         data.set([1, 2]);
         return { name, dtype: "f32", shape: [2], data };
       };
       registerModel({ preprocess: () => ({ then: (resolve) => resolve([
         tensor("shared", new SharedArrayBuffer(8)), tensor("resizable", new ArrayBuffer(8, { maxByteLength: 99 })),
       ]) }) });`,
    );
    const { tensors } = await set.preprocess([], request()).done;
    expect(tensors.map((each) => [each.name, floats(each)])).toEqual([
      ["shared", [1, 2]],
      ["resizable", [1, 2]],
    ]);
  });

  test("a hook may keep what it returned", async () => {
    using owner = pool();
    using set = await loadText(
      owner,
      `const kept = { name: "y", dtype: "f32", shape: [2], data: new Float32Array([1, 2, 3]).subarray(1) };
       registerModel({ preprocess: () => [kept] });`,
    );
    for (let call = 0; call < 2; call++) {
      expect(floats((await set.preprocess([], request()).done).tensors[0])).toEqual([2, 3]);
    }
  });
});

describe("a bundle whose hooks don't load", () => {
  const cases: Record<string, [files: Record<string, string>, message: string]> = {
    "syntax error": [
      { "model.ts": "registerModel({ preprocess( => 1 });" },
      'm/model.ts:2:29: Expected identifier but found "=>"',
    ],
    "throws at import": [{ "model.ts": 'throw new Error("no licence");' }, "m/model.ts:2:11: no licence"],
    "rejects at import": [{ "model.ts": 'await Promise.reject(new Error("late"));' }, "m/model.ts:2:26: late"],
    "throws the unprintable": [
      { "model.ts": "throw Object.create(null);" },
      "m/model.ts: it threw something that cannot be shown",
    ],
    "registers nothing": [{ "model.ts": "export {};" }, "m/model.ts: expected a call of registerModel, none was made"],
    "registers a non-function": [
      { "model.ts": "registerModel({ preprocess: 3 });" },
      "m/model.ts:2:1: registerModel: preprocess: expected a function, received number",
    ],
    "lacks a file": [
      { "model.ts": 'import "./lost.ts";' },
      "m/model.ts: Cannot find module './lost.ts' imported from m/model.ts",
    ],
    "is absent": [{ "other.ts": "" }, "m/model.ts: Cannot find module"],
    "imports what we don't have": [
      { "model.ts": 'import { registerMetaModel } from "xlaserver"; registerMetaModel({});' },
      "m/model.ts: Export named 'registerMetaModel' not found in module 'xlaserver'",
    ],
    "ends the thread": [{ "model.ts": "process.exit(7);" }, "m/model.ts: it ended the thread (exit code 7)"],
  };
  test.each(Object.entries(cases))("%s", async (_, [files, message]) => {
    using owner = pool();
    using good = await loadText(owner, IDENTITY);
    const error = await failure(load(owner, bundle(files)));
    expect(error.code).toBe("INVALID_ARGUMENT");
    expect(error.message).toStartWith(message);
    expect(floats((await good.preprocess([x(1)], request()).done).tensors[0])).toEqual([1]);
  });

  test("an import that loops is ended at its limit", async () => {
    using owner = pool();
    const error = await failure(loadText(owner, "for (;;) {}", 50));
    expect(error.message).toBe("m/model.ts: it ran longer than its limit of 50 ms (hooks.time_limit_ms) and was ended");
  });
});

describe("a hook that misbehaves hurts its own request only", () => {
  const returns = (expression: string) => `() => (${expression})`;
  const one = (fields: string) =>
    returns(`[{ name: "y", dtype: "f32", shape: [2], data: new Float32Array(2), ${fields} }]`);
  const cases: Record<string, [hook: string, message: string]> = {
    throws: ['() => { throw new TypeError("boom"); }', "boom"],
    rejects: ['async () => { await null; throw new Error("later"); }', "later"],
    "throws the unprintable": ["() => { throw Object.create(null); }", "it threw something that cannot be shown"],
    "recurses for ever": ["function again() { return again() + 1; }", "Maximum call stack size exceeded."],
    "returns nothing": ["() => {}", "expected an array of tensors, received undefined"],
    "returns a tensor alone": [returns('{ name: "y" }'), "expected an array of tensors, received Object"],
    "returns holes": [returns("[null]"), "tensor 0: expected {name, dtype, shape, data}, received null"],
    "forgets a name": [one("name: undefined"), "tensor 0: name: expected a string, received undefined"],
    "names one twice": [
      returns('["y", "y"].map((name) => ({ name, dtype: "u8", shape: [0], data: new Uint8Array(0) }))'),
      "tensor 'y': expected once, received twice",
    ],
    "invents a dtype": [one('dtype: "float32"'), "tensor 'y': dtype: expected one of bool, i8, i16"],
    "gives no shape": [
      one("shape: 2"),
      "tensor 'y': shape: expected whole extents from 0 whose product stays below 2^53, received number 2",
    ],
    "gives a negative extent": [one("shape: [-2]"), "tensor 'y': shape: expected whole extents from 0"],
    "gives a shape that overflows": [one("shape: [2**27, 2**27]"), "tensor 'y': shape: expected whole extents from 0"],
    "gives a plain array": [one("data: [1, 2]"), "tensor 'y': data: expected Float32Array (f32), received Array"],
    "gives another array": [
      one("data: new Float64Array(2)"),
      "tensor 'y': data: expected Float32Array (f32), received Float64Array",
    ],
    "gives too few": [
      one("data: new Float32Array(1)"),
      "tensor 'y': data: expected 2 elements for shape [2], received 1",
    ],
    "gives a detached buffer": [
      '() => { const data = new Float32Array(2); structuredClone(data, { transfer: [data.buffer] }); return [{ name: "y", dtype: "f32", shape: [2], data }]; }',
      "tensor 'y': data: expected 2 elements for shape [2], received a detached buffer",
    ],
    "gives a hole": ["() => [,]", "tensor 0: expected {name, dtype, shape, data}, received undefined"],
    "gives a hole as an extent": [one("shape: [2, ,]"), "tensor 'y': shape: expected whole extents from 0"],
    "gives more axes than there can be": [
      one("shape: new Array(1e8)"),
      "tensor 'y': shape: expected at most 64 axes, received 100000000",
    ],
    "gives more tensors than there can be": [
      "() => new Array(2 ** 32 - 1)",
      "expected at most 1024 tensors, received 4294967295",
    ],
    "gives an array that maps itself": [
      "() => Object.assign([1], { map: () => [{ name: 'y' }] })",
      "tensor 0: expected {name, dtype, shape, data}, received number 1",
    ],
    "gives a field that throws": [one('get data() { throw new Error("not mine"); }'), "not mine"],
    "gives a Proxy that throws": [returns('[new Proxy({}, { get() { throw new Error("trapped"); } })]'), "trapped"],
    "gives a Proxy of data": [one("data: new Proxy(new Float32Array(2), {})"), ""],
    "gives a buffer that shrank": [
      '() => { const buffer = new ArrayBuffer(8, { maxByteLength: 8 }); const data = new Float32Array(buffer, 0, 2); buffer.resize(4); return [{ name: "y", dtype: "f32", shape: [2], data }]; }',
      "tensor 'y': data: expected 2 elements for shape [2], received 0",
    ],
    "throws a Proxy": ["() => { throw new Proxy({}, { getPrototypeOf() { throw 1; } }); }", "it threw something that"],
    "throws an error that throws": [
      '() => { const error = new Error("x"); for (const key of ["message", "stack"]) Object.defineProperty(error, key, { get() { throw 1; } }); throw error; }',
      "it threw something that cannot be shown",
    ],
    "throws at length": ['() => { throw new Error("z".repeat(1e6)); }', "zzz"],
    "gives a thenable that rejects": ['() => ({ then(_, reject) { reject(new Error("no then")); } })', "no then"],
    "blocks for ever": [
      "() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
      "it ran longer than its limit of 300 ms",
    ],
    "gives strings for bytes": [
      one('dtype: "bytes", shape: [1], data: ["a"]'),
      "tensor 'y': data[0]: expected Uint8Array, received 'a'",
    ],
    "gives one buffer for bytes": [
      one('dtype: "bytes", data: new Uint8Array(2)'),
      "tensor 'y': data: expected an array of Uint8Array (bytes), received Uint8Array",
    ],
    "leaves a function in state": [
      "(inputs, context) => { context.state.f = () => 1; return inputs; }",
      "context.state, left by preprocess: expected values that structuredClone takes: The object can not be cloned.",
    ],
    "ends the thread": ["() => process.exit(3)", "it ended the thread (exit code 3)"],
    "loops for ever": [
      "() => { for (;;) {} }",
      "it ran longer than its limit of 300 ms (hooks.time_limit_ms) and was ended",
    ],
    "awaits for ever": ["() => new Promise(() => {})", "it ran longer than its limit of 300 ms"],
    "posts nonsense first": [
      '() => { postMessage(null); postMessage({ kind: "done" }); throw new Error("and throws"); }',
      "and throws",
    ],
    "forges its own result": [
      '() => { for (let order = 0; order < 99; order++) postMessage({ kind: "done", order, tensors: null }); for (;;) {} }',
      "it sent what is no result and was ended",
    ],
  };
  test.each(Object.entries(cases))("%s", async (_, [hook, message]) => {
    using owner = pool();
    using good = await loadText(owner, IDENTITY);
    const timeLimitMs = message.includes("limit") ? 300 : 10_000;
    using bad = await loadText(owner, `registerModel({ preprocess: ${hook}, postprocess: (o) => o });`, timeLimitMs);
    const failing = failure(bad.preprocess([x(1)], request()).done);
    // Asked for before the bad one has failed, so it waits for the same thread.
    const waiting = good.preprocess([x(2)], request()).done;
    const error = await failing;
    expect(error.code).toBe("INTERNAL");
    expect(error.message).toStartWith(`model 'm': preprocess hook: ${message}`);
    expect(floats((await waiting).tensors[0])).toEqual([2]);
    expect(owner.counters).toMatchObject({ failed: 1, running: 0, waiting: 0 });
  });

  test("InvalidInput is the client's fault", async () => {
    using owner = pool();
    using set = await loadText(
      owner,
      'registerModel({ preprocess() { throw new InvalidInput("texts: too long"); } });',
    );
    const error = await failure(set.preprocess([], request()).done);
    expect([error.code, error.message]).toEqual(["INVALID_ARGUMENT", "model 'm': texts: too long"]);
  });

  test("one that fills memory is ended at the bound", async () => {
    using owner = pool({ memoryBoundBytes: 200 * 2 ** 20 });
    using set = await loadText(
      owner,
      "const kept = []; registerModel({ preprocess() { for (;;) kept.push(new Uint8Array(2 ** 20).fill(1)); } });",
    );
    const error = await failure(set.preprocess([], request()).done);
    expect(error.code).toBe("INTERNAL");
    expect(error.message).toMatch(
      /^model 'm': preprocess hook: memory grew by \d+ MiB while it ran, beyond the bound of 200 MiB/,
    );
    expect(owner.counters).toMatchObject({ overMemory: 1, threadsLost: 1 });
  });
});

describe("cancelling", () => {
  const gone = new ServerError("CANCELLED", "the client has gone");

  test("a waiting call is never run, a running one is aborted", async () => {
    using owner = pool();
    using set = await loadText(
      owner,
      `let calls = 0;
       registerModel({ async preprocess(inputs, { signal }) {
         calls++;
         if (inputs.length === 0) await new Promise((resolve) => signal.addEventListener("abort", resolve));
         return [{ name: "y", dtype: "f32", shape: [1], data: Float32Array.of(calls) }];
       } });`,
    );
    const running = set.preprocess([], request());
    const waiting = set.preprocess([x(1)], request());
    const last = set.preprocess([x(1)], request());
    waiting.cancel(gone);
    expect(await failure(waiting.done)).toBe(gone);
    running.cancel(gone);
    expect(await failure(running.done)).toBe(gone);
    // The aborted hook came to its end on the same thread: the last call is its second.
    expect(floats((await last.done).tensors[0])).toEqual([2]);
    expect(owner.counters).toMatchObject({ completed: 1, failed: 0, threads: 1, threadsLost: 0 });
  });

  test("disposing the pool settles everything", async () => {
    const owner = pool();
    const set = await loadText(owner, "registerModel({ preprocess: () => new Promise(() => {}) });");
    const runs = [set.preprocess([], request()), set.preprocess([], request())];
    const errors = runs.map((run) => failure(run.done));
    owner[Symbol.dispose]();
    expect((await Promise.all(errors)).map(({ code }) => code)).toEqual(["UNAVAILABLE", "UNAVAILABLE"]);
    expect((await failure(set.preprocess([], request()).done)).code).toBe("UNAVAILABLE");
  });
});

describe("reload", () => {
  const version = (n: number) => ({
    "model.ts": `import { n } from "./n.ts";\nregisterModel({ preprocess: () => [{ name: "y", dtype: "f32", shape: [1], data: Float32Array.of(n) }] });`,
    "n.ts": `export const n = ${n};`,
  });
  const ask = async (set: HookSet) => floats((await set.preprocess([], request()).done).tensors[0])[0];

  test("takes new code, relative files too, while the older load still serves", async () => {
    using owner = pool({ threads: 2 });
    const directory = bundle(version(1));
    const first = await load(owner, directory);
    expect(await ask(first)).toBe(1);
    bundle(version(2), directory);
    const second = await load(owner, directory);
    expect(await Promise.all([ask(first), ask(second), ask(first), ask(second)])).toEqual([1, 2, 1, 2]);
    const { threads } = owner.counters;
    first[Symbol.dispose]();
    expect(owner.counters.threads).toBe(threads - 1);
    expect(await ask(second)).toBe(2);
  });

  test("that fails leaves the older load serving", async () => {
    using owner = pool();
    const directory = bundle(version(1));
    using first = await load(owner, directory);
    bundle({ "model.ts": "throw new Error('bad');" }, directory);
    expect((await failure(load(owner, directory))).message).toBe("m/model.ts:2:11: bad");
    expect(await ask(first)).toBe(1);
    bundle(version(3), directory);
    using third = await load(owner, directory);
    expect([await ask(first), await ask(third)]).toEqual([1, 3]);
  });

  test("an older load whose thread died says so", async () => {
    using owner = pool();
    const directory = bundle({ "model.ts": "registerModel({ preprocess: () => process.exit(1) });" });
    using first = await load(owner, directory);
    using _second = await load(owner, directory);
    await failure(first.preprocess([], request()).done);
    const error = await failure(first.preprocess([], request()).done);
    expect([error.code, error.message]).toEqual(["UNAVAILABLE", "model 'm': its hooks were replaced by a later load"]);
  });
});

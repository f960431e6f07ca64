// The PJRT objects of ffi/pjrt against every CPU plugin: client, device, compilation, serialisation, execution, events.
//
// All plugins live in one process here, each with its own client. Buffers and transfers have a suite beside this one.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { addressOf, liveHandles } from "../../ffi/memory.ts";
import { encodeCompileOptions } from "../../ffi/pjrt/compile-options.ts";
import type { PjrtError } from "../../ffi/pjrt/error.ts";
import { PjrtEvent } from "../../ffi/pjrt/event.ts";
import { PjrtExecutable } from "../../ffi/pjrt/executable.ts";
import { HostShape } from "../../ffi/pjrt/host-shape.ts";
import { NativeMemory } from "../../ffi/posix/native-memory.ts";
import { MODULES, PJRT_TYPE, ramp, TestPlatform } from "../support/pjrt.ts";
import { TEST_PLUGIN_NAMES, testPlugin } from "../support/plugins.ts";

// xla.PrimitiveType, as programs name types.
const HLO_TYPE = { PRED: 1, S64: 5, U8: 6, F32: 11, BF16: 16 } as const;

function pjrtFailure(action: () => unknown): PjrtError {
  try {
    action();
  } catch (thrown) {
    return thrown as PjrtError;
  }
  throw new Error("expected a PjrtError, nothing was thrown");
}

for (const name of TEST_PLUGIN_NAMES) {
  const plugin = await testPlugin(name);
  if (plugin.skip) console.log(`${name} skipped: ${plugin.skip}`);
  describe.skipIf(plugin.skip !== undefined)(name, () => {
    let platform: TestPlatform;
    beforeAll(() => {
      platform = TestPlatform.open(plugin.path!);
    });
    afterAll(() => {
      platform[Symbol.dispose]();
      expect(liveHandles()).toEqual({});
    });

    describe("client and device", () => {
      test("tell who they are", () => {
        expect(platform.client.platformName).toBe("cpu");
        expect(platform.client.platformVersion).not.toBe("");
        expect(platform.client.devices()).toHaveLength(1);
        const { id, kind, localHardwareId, debugText, memoryKinds, attributes } = platform.device;
        expect({ id, kind, localHardwareId }).toEqual({ id: 0, kind: "cpu", localHardwareId: 0 });
        expect(debugText).not.toBe("");
        expect(memoryKinds).toContain("device");
        expect(attributes).toBeObject();
      });

      test("the CPU has no memory statistics and can't pin memory", () => {
        expect(platform.device.memoryStats()).toBeUndefined();
        using memory = NativeMemory.map(4096);
        expect(pjrtFailure(() => platform.client.dmaMap(memory.address, 4096)).code).toBe("UNIMPLEMENTED");
      });
    });

    describe("compilation", () => {
      test("broken modules are errors with the parser's words", () => {
        for (const module of [
          "module {",
          "not mlir at all",
          `module @m { func.func public @main() { return %nope } }`,
          "\0",
        ]) {
          const error = pjrtFailure(() => platform.compile(module));
          // XLA's own code for what its parser refuses.
          expect(error.code).toBe("UNKNOWN");
          expect(error.message).toMatch(/^PJRT_Client_Compile: ./);
        }
        expect(pjrtFailure(() => platform.compile("")).message).toContain("the module is empty");
      });

      test("broken options are an error", () => {
        const module = new TextEncoder().encode(MODULES.identity);
        const garbage = new Uint8Array([0xff, 0xff, 0xff]);
        const error = pjrtFailure(() => PjrtExecutable.compile(platform.client, module, garbage));
        expect(error.message).toContain("CompileOptionsProto");
      });

      test("XLA flags of every kind reach the compiler, unknown ones and wrong values are named", () => {
        const flags = {
          xla_cpu_use_onednn: true,
          xla_backend_optimization_level: 2,
          xla_gpu_auto_spmd_partitioning_memory_budget_ratio: 1,
          xla_dump_hlo_module_re: "none",
        };
        platform.compile(MODULES.identity, flags)[Symbol.dispose]();
        platform
          .compile(MODULES.identity, { xla_gpu_auto_spmd_partitioning_memory_budget_ratio: 1.5 })
          [Symbol.dispose]();
        const unknown = pjrtFailure(() => platform.compile(MODULES.identity, { xla_no_such_flag: true }));
        expect(unknown.message).toContain("xla_no_such_flag");
        const wrong = pjrtFailure(() => platform.compile(MODULES.identity, { xla_backend_optimization_level: "much" }));
        expect(wrong.message).toContain("xla_backend_optimization_level");
      });
    });

    describe("what an executable says of itself", () => {
      test("the signature of the program as compiled", () => {
        using executable = platform.compile(MODULES.manyTypes);
        const bf16 = { type: HLO_TYPE.BF16, dims: [2, 3, 4], rowMajor: true };
        const i64 = { type: HLO_TYPE.S64, dims: [], rowMajor: true };
        expect(executable.programShape()).toEqual({
          parameters: [
            { type: HLO_TYPE.PRED, dims: [4], rowMajor: true },
            i64,
            bf16,
            { type: HLO_TYPE.U8, dims: [0, 3], rowMajor: true },
          ],
          results: [bf16, i64],
          donatable: [],
        });
        expect(executable.outputShapes).toEqual([
          { type: PJRT_TYPE.BF16, dims: [2, 3, 4] },
          { type: PJRT_TYPE.S64, dims: [] },
        ]);
      });

      test("one result, and none", () => {
        using one = platform.compile(MODULES.identity);
        expect(one.programShape()!.results).toEqual([{ type: HLO_TYPE.F32, dims: [16], rowMajor: true }]);
        using none = platform.compile(MODULES.noResults);
        expect(none.programShape()!.results).toEqual([]);
        expect(none.outputShapes).toEqual([]);
        expect(none.outputCount).toBe(0);
      });

      test("name, fingerprint, memory and cost", () => {
        using executable = platform.compile(MODULES.sumAndDifference);
        using again = platform.compile(MODULES.sumAndDifference);
        using other = platform.compile(MODULES.identity);
        expect(executable.name).toBe("sum_and_difference");
        expect(executable.fingerprint).toBe(again.fingerprint);
        expect(executable.fingerprint).not.toBe(other.fingerprint);
        const stats = executable.memoryStats();
        expect(stats.argumentBytes).toBe(2 * 64);
        expect(stats.outputBytes).toBeGreaterThanOrEqual(2 * 64);
        expect(stats.peakBytes).toBeGreaterThanOrEqual(stats.argumentBytes);
        expect(executable.generatedCodeBytes).toBeGreaterThanOrEqual(0);
        // Newer CPU plugins have none.
        const cost = executable.costAnalysis();
        if (platform.api.version.minor === 81) expect(cost?.flops).toBe(32);
        else expect(cost).toBeUndefined();
      });
    });

    describe("serialisation", () => {
      test("what was serialised runs again with the same results", () => {
        using executable = platform.compile(MODULES.sumAndDifference);
        const bytes = executable.serialize();
        using loaded = PjrtExecutable.deserialize(platform.client, bytes);
        expect(loaded.name).toBe("sum_and_difference");
        expect(loaded.programShape()).toEqual(executable.programShape());
        using a = platform.upload(ramp());
        using b = platform.upload(ramp(100));
        expect(platform.run(loaded, [a, b])).toEqual(platform.run(executable, [a, b]));
      });

      test("what launching needs may be given: then the program is not asked for, and nothing is donated", () => {
        using executable = platform.compile(MODULES.aliasing);
        const { outputCount, donatable } = executable;
        expect({ outputCount, donatable }).toEqual({ outputCount: 1, donatable: [1] });
        using loaded = PjrtExecutable.deserialize(platform.client, executable.serialize(), { outputCount, donatable });
        using b = platform.upload(ramp(1));
        using a = platform.upload(ramp(5));
        expect(platform.run(loaded, [b, a])).toEqual([[...ramp().map((_, index) => 6 + 2 * index)]]);
        expect(platform.download(a)).toEqual([...ramp(5)]);
      });

      test("garbage, nothing and a cut-off program are errors", () => {
        using executable = platform.compile(MODULES.identity);
        const bytes = executable.serialize();
        for (const damaged of [new TextEncoder().encode("garbage"), new Uint8Array(0), bytes.slice(0, -100)]) {
          expect(() => PjrtExecutable.deserialize(platform.client, damaged)).toThrow(/DeserializeAndLoad/);
        }
      });
    });

    describe("execution", () => {
      test("gives every output, and inputs may repeat", () => {
        using executable = platform.compile(MODULES.sumAndDifference);
        using a = platform.upload(ramp(1));
        using b = platform.upload(ramp(10));
        const [sum, difference] = platform.run(executable, [a, b]);
        expect(sum).toEqual([...ramp().map((_, index) => 11 + 2 * index)]);
        expect(difference).toEqual(new Array(16).fill(-9));
        expect(platform.run(executable, [a, a])[1]).toEqual(new Array(16).fill(0));
      });

      test("donates nothing, even where the program may write over its input", () => {
        using executable = platform.compile(MODULES.aliasing);
        expect(executable.programShape()!.donatable).toEqual([1]);
        using b = platform.upload(ramp(1));
        using a = platform.upload(ramp(5));
        for (let repeat = 0; repeat < 3; repeat++) {
          expect(platform.run(executable, [b, a])).toEqual([[...ramp().map((_, index) => 6 + 2 * index)]]);
          expect(platform.download(a)).toEqual([...ramp(5)]);
        }
      });

      test("donates nothing where the plugin does not show its program", () => {
        using executable = platform.compile(MODULES.aliasing);
        using unknown = PjrtExecutable.borrow(platform.api, { ...executable.handleForThreads, donatable: "unknown" });
        using b = platform.upload(ramp(1));
        using a = platform.upload(ramp(5));
        for (let repeat = 0; repeat < 3; repeat++) platform.run(unknown, [b, a]);
        expect(platform.download(a)).toEqual([...ramp(5)]);
      });

      test("outputs feed the next execution without waiting", () => {
        using executable = platform.compile(MODULES.sumAndDifference);
        using a = platform.upload(ramp(1));
        const { outputs, done } = executable.execute([a, a]);
        expect(platform.run(executable, [outputs[0]!, a])[1]).toEqual([...ramp(1)]);
        for (const owned of [done, ...outputs]) owned[Symbol.dispose]();
      });

      test("a program without results runs", () => {
        using executable = platform.compile(MODULES.noResults);
        using a = platform.upload(ramp());
        expect(platform.run(executable, [a])).toEqual([]);
      });

      test("a wrong number of inputs, and inputs of another size, are INVALID_ARGUMENT", () => {
        using executable = platform.compile(MODULES.sumAndDifference);
        using a = platform.upload(ramp());
        using small = platform.upload(ramp(), new HostShape(PJRT_TYPE.F32, [8]));
        for (const inputs of [[], [a], [a, a, a], [a, small]]) {
          expect(pjrtFailure(() => executable.execute(inputs)).code).toBe("INVALID_ARGUMENT");
        }
        expect(platform.run(executable, [a, a])[1]).toEqual(new Array(16).fill(0));
      });
    });

    describe("events", () => {
      test("report that a slow execution is done, to those who await and those who go on", async () => {
        using executable = platform.compile(MODULES.slow);
        const shape = new HostShape(PJRT_TYPE.F32, [1000, 1000]);
        using x = platform.upload(new Float32Array(1_000_000).fill(0.001), shape);
        const { outputs, done } = executable.execute([x]);
        await done.ready();
        expect(done.isReady()).toBe(true);
        done.await();
        using ready = outputs[0]!.readyEvent();
        ready.await();
        done[Symbol.dispose]();
        outputs[0]![Symbol.dispose]();
      });

      test("may be disposed while someone waits for them", async () => {
        using executable = platform.compile(MODULES.slow);
        const shape = new HostShape(PJRT_TYPE.F32, [1000, 1000]);
        using x = platform.upload(new Float32Array(1_000_000).fill(0.001), shape);
        const { outputs, done } = executable.execute([x]);
        const waits = [done.ready(), done.ready()];
        done[Symbol.dispose]();
        outputs[0]![Symbol.dispose]();
        await Promise.all(waits);
      });

      test("carry errors to every kind of waiter", async () => {
        using buffer = platform.upload(ramp());
        const target = new Uint8Array(64);
        using event = buffer.rawToHost(addressOf(target), 60, 16);
        expect(pjrtFailure(() => event.await()).code).toBe("INVALID_ARGUMENT");
        expect(event.isReady()).toBe(true);
        await expect(event.ready()).rejects.toThrow(/PJRT_Event_OnReady/);
      });
    });

    describe("ownership", () => {
      test("a disposed object refuses work, and disposing twice is nothing", () => {
        const buffer = platform.upload(ramp());
        buffer[Symbol.dispose]();
        buffer[Symbol.dispose]();
        expect(() => buffer.dims).toThrow(/used after its end/);
      });

      test("a released handle lives on with its adopter, a borrowed one with its owner", () => {
        using buffer = platform.upload(ramp());
        using ready = buffer.readyEvent();
        const address = ready.release();
        expect(() => ready.isReady()).toThrow(/used after its end/);
        using adopted = PjrtEvent.adopt(platform.api, address);
        PjrtEvent.borrow(platform.api, adopted.address)[Symbol.dispose]();
        expect(() => PjrtEvent.borrow(platform.api, adopted.address).release()).toThrow(/not ours/);
        adopted.await();
      });

      test("live handles are counted by noun", () => {
        const before = liveHandles();
        using executable = platform.compile(MODULES.identity);
        using x = platform.upload(ramp());
        const { outputs, done } = executable.execute([x]);
        const during = liveHandles();
        expect(during.executable).toBe((before.executable ?? 0) + 1);
        expect(during.buffer).toBe((before.buffer ?? 0) + 2);
        expect(during.event).toBe((before.event ?? 0) + 1);
        for (const owned of [done, ...outputs]) owned[Symbol.dispose]();
      });
    });
  });
}

test("compile options are XLA's bytes, the same for the same flags", () => {
  // executable_build_options { num_replicas: 1, num_partitions: 1 }
  expect([...encodeCompileOptions()]).toEqual([0x1a, 4, 0x20, 1, 0x28, 1]);
  expect(encodeCompileOptions({ b: true, a: 1 })).toEqual(encodeCompileOptions({ a: 1, b: true }));
});

// Buffers of ffi/pjrt against every CPU plugin: host memory copied, transferred and aliased; views of device memory;
// buffers written in pieces; and cycles of all of it, which must not grow the process.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { addressOf, liveHandles, offsetAddress } from "../../ffi/memory.ts";
import { PjrtBuffer } from "../../ffi/pjrt/buffer.ts";
import { PjrtExecutable } from "../../ffi/pjrt/executable.ts";
import { HostShape } from "../../ffi/pjrt/host-shape.ts";
import { PjrtTransfer } from "../../ffi/pjrt/transfer.ts";
import { NativeMemory } from "../../ffi/posix/native-memory.ts";
import { F32_16, MODULES, PJRT_TYPE, ramp, TestPlatform } from "../support/pjrt.ts";
import { TEST_PLUGIN_NAMES, testPlugin } from "../support/plugins.ts";

const BYTES = 64;

for (const name of TEST_PLUGIN_NAMES) {
  const plugin = await testPlugin(name);
  if (plugin.skip) console.log(`${name} skipped: ${plugin.skip}`);
  describe.skipIf(plugin.skip !== undefined)(name, () => {
    let platform: TestPlatform;
    /** 64-byte aligned, so that the CPU can use it in place. */
    let memory: NativeMemory;
    let floats: Float32Array;
    beforeAll(() => {
      platform = TestPlatform.open(plugin.path!);
      memory = NativeMemory.allocate(4096, 64);
      floats = new Float32Array(memory.bytes.buffer);
    });
    afterAll(() => {
      memory[Symbol.dispose]();
      platform[Symbol.dispose]();
      expect(liveHandles()).toEqual({});
    });

    describe("from and to host memory", () => {
      test("a copy is free of its source", () => {
        const source = ramp(3);
        using buffer = platform.upload(source);
        source.fill(-1);
        expect(platform.download(buffer)).toEqual([...ramp(3)]);
      });

      test("a transfer has read its source when the event says so", () => {
        floats.set(ramp(7));
        const { client, device } = platform;
        const { buffer, hostReleased } = PjrtBuffer.transferFromHost(client, device, memory.address, F32_16);
        hostReleased.await();
        hostReleased[Symbol.dispose]();
        floats.fill(-1);
        expect(platform.download(buffer)).toEqual([...ramp(7)]);
        buffer[Symbol.dispose]();
      });

      test("an alias of aligned memory is that memory, until the buffer is gone", () => {
        const { client, device } = platform;
        const { buffer, hostReleased } = PjrtBuffer.aliasHost(client, device, memory.address, F32_16);
        floats.set(ramp(9));
        expect(platform.download(buffer)).toEqual([...ramp(9)]);
        using pinned = buffer.pin();
        expect(pinned.address).toBe(memory.address);
        pinned[Symbol.dispose]();
        expect(hostReleased.isReady()).toBe(false);
        buffer[Symbol.dispose]();
        hostReleased.await();
        hostReleased[Symbol.dispose]();
      });

      test("an alias of memory that is not 64-byte aligned is silently a copy", () => {
        const { client, device } = platform;
        const source = offsetAddress(memory.address, 16);
        const { buffer, hostReleased } = PjrtBuffer.aliasHost(client, device, source, F32_16);
        {
          using pinned = buffer.pin();
          expect(pinned.address).not.toBe(source);
        }
        expect(hostReleased.isReady()).toBe(true);
        for (const owned of [buffer, hostReleased]) owned[Symbol.dispose]();
      });

      test("types and dims are told back: scalars, empty arrays, wide integers", () => {
        const cases: [number, number[], number][] = [
          [PJRT_TYPE.F32, [], 4],
          [PJRT_TYPE.S64, [2, 3], 48],
          [PJRT_TYPE.U8, [0, 5], 0],
          [PJRT_TYPE.PRED, [3], 3],
        ];
        for (const [type, dims, byteLength] of cases) {
          using buffer = platform.upload(memory.bytes, new HostShape(type, dims));
          expect([buffer.type, buffer.dims, buffer.hostBytes]).toEqual([type, dims, byteLength]);
          expect(buffer.onDeviceBytes).toBe(byteLength);
        }
      });

      test("a target that is too small is refused, a part can be read", () => {
        using buffer = platform.upload(ramp());
        const target = new Float32Array(new ArrayBuffer(BYTES));
        expect(() => buffer.toHost(addressOf(target), BYTES - 1)).toThrow(/PJRT_Buffer_ToHostBuffer/);
        using event = buffer.rawToHost(addressOf(target), 8, 12);
        event.await();
        expect([...target.slice(0, 4)]).toEqual([2, 3, 4, 0]);
      });
    });

    describe("an arena of device memory", () => {
      const arenaBytes = new HostShape(PJRT_TYPE.U8, [4096]);

      test("is written in pieces, read through views, and overwritten in place", () => {
        using executable = platform.compile(MODULES.sumAndDifference);
        using transfer = PjrtTransfer.create(platform.client, platform.device, [arenaBytes]);
        expect(transfer.bufferBytes).toEqual([4096]);
        using arena = transfer.takeBuffer(0);
        using pinned = arena.pin();
        const at = (offset: number) => offsetAddress(pinned.address, offset);
        using a = PjrtBuffer.viewOfDevice(platform.client, platform.device, at(0), F32_16);
        using b = PjrtBuffer.viewOfDevice(platform.client, platform.device, at(256), F32_16);
        const write = (offset: number, values: Float32Array) => {
          using written = transfer.write(0, addressOf(values), offset, BYTES, false);
          written.await();
        };
        for (let cycle = 0; cycle < 200; cycle++) {
          write(0, ramp(cycle));
          write(256, ramp(1));
          expect(platform.run(executable, [a, b])[1]).toEqual(new Array(16).fill(cycle - 1));
        }
      });

      test("makes buffers ready with the last piece", () => {
        using transfer = PjrtTransfer.create(platform.client, platform.device, [F32_16, F32_16]);
        const first = ramp(1);
        const second = ramp(2);
        for (const [index, values] of [first, second].entries()) {
          using half = transfer.write(index, addressOf(values), 0, 32, false);
          half.await();
          using rest = transfer.write(index, offsetAddress(addressOf(values), 32), 32, 32, true);
          rest.await();
          using buffer = transfer.takeBuffer(index);
          expect(platform.download(buffer)).toEqual([...values]);
        }
      });

      test("refuses what lies outside it", () => {
        using transfer = PjrtTransfer.create(platform.client, platform.device, [F32_16]);
        const values = ramp();
        expect(() => transfer.write(0, addressOf(values), 32, BYTES, false)).toThrow(/bytes 32 to 96 of buffer 0/);
        expect(() => transfer.write(0, addressOf(values), -8, BYTES, false)).toThrow(/bytes -8/);
        expect(() => transfer.write(1, addressOf(values), 0, BYTES, false)).toThrow(/buffer 1 in a transfer of \[64\]/);
        expect(() => transfer.takeBuffer(-1)).toThrow(/buffer -1/);
        using last = transfer.write(0, addressOf(values), 0, BYTES, true);
        last.await();
      });
    });

    describe("many cycles leave the process as it was", () => {
      /** Runs `cycle` often, and says by how much resident memory grew after the first runs. */
      function growthBytes(cycles: number, cycle: () => void): number {
        for (let warmUp = 0; warmUp < cycles / 4; warmUp++) cycle();
        Bun.gc(true);
        const before = process.memoryUsage.rss();
        for (let index = 0; index < cycles; index++) cycle();
        Bun.gc(true);
        return process.memoryUsage.rss() - before;
      }

      // Each cycle handles about a megabyte: a leak of one of its parts would be hundreds.
      const boundBytes = 64 * 2 ** 20;
      const shape = new HostShape(PJRT_TYPE.F32, [512, 512]);
      const double = `module @double { func.func public @main(%x: tensor<512x512xf32>) -> tensor<512x512xf32> {
        %0 = stablehlo.add %x, %x : tensor<512x512xf32>
        return %0 : tensor<512x512xf32> } }`;

      test("host to device, execute, device to host", () => {
        using executable = platform.compile(double);
        const values = new Float32Array(512 * 512).fill(2);
        const target = new Float32Array(512 * 512);
        const grown = growthBytes(400, () => {
          using x = platform.upload(values, shape);
          const { outputs, done } = executable.execute([x]);
          using result = outputs[0]!;
          using _ = done;
          using copied = result.toHost(addressOf(target), target.byteLength);
          copied.await();
        });
        expect(target.every((value) => value === 4)).toBe(true);
        expect(grown).toBeLessThan(boundBytes);
      });

      test("transfers, aliases and failures", () => {
        using block = NativeMemory.allocate(2 ** 20, 64);
        const grown = growthBytes(400, () => {
          const { buffer, hostReleased } = PjrtBuffer.aliasHost(platform.client, platform.device, block.address, shape);
          expect(() => buffer.toHost(block.address, 4)).toThrow();
          buffer[Symbol.dispose]();
          hostReleased[Symbol.dispose]();
          using transfer = PjrtTransfer.create(platform.client, platform.device, [shape]);
          using written = transfer.write(0, block.address, 0, 2 ** 20, true);
          written.await();
          transfer.takeBuffer(0)[Symbol.dispose]();
        });
        expect(grown).toBeLessThan(boundBytes);
      });

      test("compile, serialise, load", () => {
        // A constant of 512 KB makes each program and its serialised form weigh.
        const numbers = Array.from({ length: 131072 }, (_, index) => `${index % 977}.0`).join(", ");
        const heavy = platform.compile(`module @heavy {
          func.func public @main(%x: tensor<131072xf32>) -> tensor<131072xf32> {
            %c = stablehlo.constant dense<[${numbers}]> : tensor<131072xf32>
            %0 = stablehlo.add %x, %c : tensor<131072xf32>
            return %0 : tensor<131072xf32> } }`);
        const grown = growthBytes(60, () => {
          const bytes = heavy.serialize();
          expect(bytes.byteLength).toBeGreaterThan(512 * 1024);
          using loaded = PjrtExecutable.deserialize(platform.client, bytes);
          loaded.programShape();
        });
        heavy[Symbol.dispose]();
        expect(grown).toBeLessThan(boundBytes);
      });
    });
  });
}

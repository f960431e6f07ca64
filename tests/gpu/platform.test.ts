// Check 1 of a CUDA machine: what it is, what the client says of it, and that the PJRT objects do there what they do on
// the CPU. Prints why it skips where there is no CUDA device.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { totalmem } from "node:os";
import { addressOf, liveHandles, offsetAddress } from "../../ffi/memory.ts";
import { PjrtBuffer } from "../../ffi/pjrt/buffer.ts";
import { PjrtExecutable } from "../../ffi/pjrt/executable.ts";
import { HostShape } from "../../ffi/pjrt/host-shape.ts";
import { pluginExtensions } from "../../ffi/pjrt/plugin.ts";
import { PjrtTransfer } from "../../ffi/pjrt/transfer.ts";
import { NativeMemory } from "../../ffi/posix/native-memory.ts";
import { findGpu, type Gpu, openGpu } from "../support/gpu.ts";
import { F32_16, MODULES, PJRT_TYPE, ramp, type TestPlatform } from "../support/pjrt.ts";

const gpu = findGpu();
if (gpu.skip !== undefined) console.log(`tests/gpu skipped: ${gpu.skip}`);

/** What the kernel says of the device's link now, e.g. "16.0 GT/s PCIe x16". */
async function pciLink(pciBusId: string): Promise<string> {
  const folder = `/sys/bus/pci/devices/${pciBusId}`;
  if (!existsSync(`${folder}/current_link_speed`)) return "not shown";
  const read = async (name: string) => (await Bun.file(`${folder}/${name}`).text()).trim();
  return `${await read("current_link_speed")} x${await read("current_link_width")}`;
}

describe.skipIf(gpu.skip !== undefined)("a CUDA device", () => {
  let platform: TestPlatform;
  let createMs: number;
  beforeAll(() => {
    ({ platform, createMs } = openGpu(gpu as Gpu));
  });
  afterAll(() => {
    platform[Symbol.dispose]();
    expect(liveHandles()).toEqual({});
  });

  test("is described: driver, link, memory, plugin", async () => {
    const { driver, ordinal } = gpu as Gpu;
    const device = driver.device(ordinal);
    const { api, client, device: pjrtDevice } = platform;
    console.log(
      [
        `device      ${device.name}, ${device.memoryBytes} bytes, PJRT kind ${pjrtDevice.kind}`,
        `attributes  ${JSON.stringify(pjrtDevice.attributes)}`,
        `driver      CUDA ${driver.version}, PCIe ${await pciLink(device.pciBusId)}`,
        `host        ${totalmem()} bytes of memory`,
        `plugin      PJRT API ${api.version.major}.${api.version.minor}, ${client.platformVersion}`,
        `extensions  ${pluginExtensions(api).join(", ")}`,
        `client      created in ${createMs.toFixed(0)} ms, memories ${pjrtDevice.memoryKinds.join(", ")}`,
        `statistics  ${JSON.stringify(pjrtDevice.memoryStats())}`,
      ].join("\n"),
    );
    expect(pjrtDevice.kind).toBe(device.name);
    expect(pjrtDevice.localHardwareId).toBe(ordinal);
  });

  test("has memory statistics whose limit is the fraction that was asked for", () => {
    const { driver, ordinal } = gpu as Gpu;
    const stats = platform.device.memoryStats();
    expect(stats?.limitBytes).toBeDefined();
    const fraction = stats!.limitBytes! / driver.device(ordinal).memoryBytes;
    expect(fraction).toBeGreaterThan(0.85);
    expect(fraction).toBeLessThan(0.95);
    const before = stats!.inUseBytes;
    using _ = platform.upload(new Float32Array(2 ** 20), new HostShape(PJRT_TYPE.F32, [2 ** 20]));
    expect(platform.device.memoryStats()!.inUseBytes).toBeGreaterThanOrEqual(before + 2 ** 22);
  });

  test("runs a program, and the serialised one", () => {
    using executable = platform.compile(MODULES.sumAndDifference);
    using loaded = PjrtExecutable.deserialize(platform.client, executable.serialize());
    expect(loaded.programShape()).toEqual(executable.programShape());
    using a = platform.upload(ramp(3));
    using b = platform.upload(ramp(1));
    for (const program of [executable, loaded]) {
      expect(platform.run(program, [a, b])[1]).toEqual(new Array(16).fill(2));
    }
  });

  test("donates nothing", () => {
    using executable = platform.compile(MODULES.aliasing);
    using b = platform.upload(ramp(1));
    using a = platform.upload(ramp(5));
    for (let repeat = 0; repeat < 3; repeat++) platform.run(executable, [b, a]);
    expect(platform.download(a)).toEqual([...ramp(5)]);
  });

  test("reads arguments through views of an arena that is overwritten in place", () => {
    using executable = platform.compile(MODULES.sumAndDifference);
    using transfer = PjrtTransfer.create(platform.client, platform.device, [new HostShape(PJRT_TYPE.U8, [2 ** 20])]);
    using arena = transfer.takeBuffer(0);
    using pinned = arena.pin();
    const at = (offset: number) => offsetAddress(pinned.address, offset);
    using a = PjrtBuffer.viewOfDevice(platform.client, platform.device, at(0), F32_16);
    using b = PjrtBuffer.viewOfDevice(platform.client, platform.device, at(256), F32_16);
    for (let cycle = 0; cycle < 100; cycle++) {
      for (const [offset, values] of [
        [0, ramp(cycle)],
        [256, ramp(1)],
      ] as const) {
        using written = transfer.write(0, addressOf(values), offset, 64, false);
        written.await();
      }
      expect(platform.run(executable, [a, b])[1]).toEqual(new Array(16).fill(cycle - 1));
    }
  });

  test("transfers from pinned memory", () => {
    using memory = NativeMemory.map(2 ** 20);
    using _ = platform.client.dmaMap(memory.address, memory.byteLength);
    new Float32Array(memory.bytes.buffer).set(ramp(4));
    const { client, device } = platform;
    const { buffer, hostReleased } = PjrtBuffer.transferFromHost(client, device, memory.address, F32_16);
    hostReleased.await();
    expect(platform.download(buffer)).toEqual([...ramp(4)]);
    for (const owned of [buffer, hostReleased]) owned[Symbol.dispose]();
  });
});

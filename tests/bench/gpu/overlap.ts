// Check 4 of a CUDA machine: how much of a load hides behind an execution of equal time, in four ways.
//
// hidden = (Te + Tl - Tboth) / min(Te, Tl): 0 when nothing overlaps, 1 when all does. Expected near 0 for (a); from 0.8 on a
// way is accepted for loading weights while a batch runs.
// Run it: bun tests/bench/gpu/overlap.ts

import { offsetAddress } from "../../../ffi/memory.ts";
import { PjrtBuffer } from "../../../ffi/pjrt/buffer.ts";
import type { PjrtExecutable } from "../../../ffi/pjrt/executable.ts";
import { HostShape } from "../../../ffi/pjrt/host-shape.ts";
import { PjrtTransfer } from "../../../ffi/pjrt/transfer.ts";
import { NativeMemory } from "../../../ffi/posix/native-memory.ts";
import { messageOf } from "../../../src/base/errors.ts";
import { type Gpu, openGpu } from "../../support/gpu.ts";
import { median } from "../../support/median.ts";
import { PJRT_TYPE, type TestPlatform } from "../../support/pjrt.ts";
import { benchmarkOnGpu, formatBytes, formatTable, MIB, repeatMs, timeMs, touch, writeInChunks } from "./measure.ts";

const SIDE = 4096;
const EXECUTE_MS = 20;
const CHUNK_BYTES = 8 * MIB;
const OUTSTANDING = 2;
const REPEATS = 15;

/** One way to load while an execution runs: `load` alone, and the load with `launch` where this way has it. */
interface Way {
  readonly name: string;
  readonly load: () => void;
  readonly loadAround: (launch: () => void) => void;
}

export function overlap(gpu: Gpu): void {
  const { platform } = openGpu(gpu);
  using _ = platform;
  using input = platform.upload(new Float32Array(SIDE * SIDE).fill(1e-3), new HostShape(PJRT_TYPE.F32, [SIDE, SIDE]));
  using executable = compileOfMs(platform, input, EXECUTE_MS);
  const executeMs = repeatMs(() => launchAndWait(executable, input)).steadyMs;
  const loadBytes = bytesOfMs(platform, executeMs);
  console.log(`execution ${executeMs.toFixed(1)} ms, load ${formatBytes(loadBytes)}`);

  using host = NativeMemory.map(loadBytes);
  touch(host);
  using stack = new DisposableStack();
  try {
    stack.use(platform.client.dmaMap(host.address, loadBytes));
  } catch (thrown) {
    console.log(`the load is pageable: ${messageOf(thrown)}`);
  }
  const rows = [["way", "Te ms", "Tl ms", "Tboth ms", "hidden"]];
  for (const way of ways(gpu, platform, host, stack)) rows.push(measure(way, executable, input));
  console.log(formatTable(rows));
}

function measure({ name, load, loadAround }: Way, executable: PjrtExecutable, input: PjrtBuffer): string[] {
  loadAround(() => launchAndWait(executable, input));
  const times = { execute: [] as number[], load: [] as number[], both: [] as number[] };
  for (let repeat = 0; repeat < REPEATS; repeat++) {
    times.execute.push(timeMs(() => launchAndWait(executable, input)));
    times.load.push(timeMs(load));
    times.both.push(timeMs(() => bothAtOnce(loadAround, executable, input)));
  }
  const [execute, alone, both] = [median(times.execute), median(times.load), median(times.both)];
  const hidden = (execute + alone - both) / Math.min(execute, alone);
  return [name, execute.toFixed(2), alone.toFixed(2), both.toFixed(2), hidden.toFixed(2)];
}

/** Until the load and the execution launched within it are both done. */
function bothAtOnce(loadAround: Way["loadAround"], executable: PjrtExecutable, input: PjrtBuffer): void {
  using stack = new DisposableStack();
  let finish = () => {};
  loadAround(() => {
    const { outputs, done } = executable.execute([input]);
    for (const owned of [done, ...outputs]) stack.use(owned);
    finish = () => done.await();
  });
  finish();
}

function launchAndWait(executable: PjrtExecutable, input: PjrtBuffer): void {
  const { outputs, done } = executable.execute([input]);
  using stack = new DisposableStack();
  for (const owned of [done, ...outputs]) stack.use(owned);
  done.await();
}

function* ways(gpu: Gpu, platform: TestPlatform, host: NativeMemory, stack: DisposableStack): Generator<Way> {
  const { client, device } = platform;
  const shape = new HostShape(PJRT_TYPE.U8, [host.byteLength]);
  const chunks = { to: host.byteLength, chunkBytes: CHUNK_BYTES, outstanding: OUTSTANDING };

  const whole = () => {
    const { buffer, hostReleased } = PjrtBuffer.transferFromHost(client, device, host.address, shape);
    using _ = buffer;
    using released = hostReleased;
    using ready = buffer.readyEvent();
    ready.await();
    released.await();
  };
  yield {
    name: "(a) Execute, then BufferFromHostBuffer",
    load: whole,
    loadAround: (launch) => {
      launch();
      whole();
    },
  };

  const allocateAndLoad = (launch: () => void) => {
    using transfer = PjrtTransfer.create(client, device, [shape]);
    using _ = transfer.takeBuffer(0);
    writeInChunks(transfer, host.address, { ...chunks, to: Math.min(CHUNK_BYTES, host.byteLength) });
    launch();
    writeInChunks(transfer, host.address, { ...chunks, from: CHUNK_BYTES });
  };
  yield {
    name: "(b) allocate, first chunk, Execute, rest",
    load: () => allocateAndLoad(() => {}),
    loadAround: allocateAndLoad,
  };

  const arena = stack.use(PjrtTransfer.create(client, device, [shape]));
  stack.use(arena.takeBuffer(0));
  const loadArena = () => writeInChunks(arena, host.address, chunks);
  loadArena();
  yield {
    name: "(c) Execute, then into an arena",
    load: loadArena,
    loadAround: (launch) => {
      launch();
      loadArena();
    },
  };

  stack.use(gpu.driver.useDevice(gpu.ordinal));
  const stream = stack.use(gpu.driver.createStream());
  const target = stack.use(gpu.driver.allocateDevice(host.byteLength));
  const loadByDriver = () => {
    for (let offset = 0; offset < host.byteLength; offset += CHUNK_BYTES) {
      const byteLength = Math.min(CHUNK_BYTES, host.byteLength - offset);
      stream.copyToDevice(offsetAddress(target.address, offset), offsetAddress(host.address, offset), byteLength);
    }
    stream.synchronize();
  };
  yield {
    name: "(d) Execute, then a libcuda stream",
    load: loadByDriver,
    loadAround: (launch) => {
      launch();
      loadByDriver();
    },
  };
}

/** A chain of matrix products that takes about `targetMs`; its length is found by measuring a short one. */
function compileOfMs(platform: TestPlatform, input: PjrtBuffer, targetMs: number): PjrtExecutable {
  const probeLength = 4;
  using probe = platform.compile(matrixChain(probeLength));
  const probeMs = repeatMs(() => launchAndWait(probe, input)).steadyMs;
  return platform.compile(matrixChain(Math.max(1, Math.round((targetMs / probeMs) * probeLength))));
}

function matrixChain(length: number): string {
  const type = `tensor<${SIDE}x${SIDE}xf32>`;
  const products = Array.from(
    { length },
    (_, index) => `%${index + 1} = stablehlo.dot %${index === 0 ? "x" : index}, %x : (${type}, ${type}) -> ${type}`,
  );
  return `module @chain { func.func public @main(%x: ${type}) -> ${type} {
    ${products.join("\n    ")}
    return %${length} : ${type} } }`;
}

/** How many bytes the link brings in `targetMs`, in whole chunks. */
function bytesOfMs(platform: TestPlatform, targetMs: number): number {
  const probeBytes = 64 * MIB;
  using host = NativeMemory.map(probeBytes);
  touch(host);
  using transfer = PjrtTransfer.create(platform.client, platform.device, [new HostShape(PJRT_TYPE.U8, [probeBytes])]);
  using _ = transfer.takeBuffer(0);
  const chunks = { to: probeBytes, chunkBytes: CHUNK_BYTES, outstanding: OUTSTANDING };
  const { steadyMs } = repeatMs(() => writeInChunks(transfer, host.address, chunks));
  return Math.max(2, Math.round((probeBytes * (targetMs / steadyMs)) / CHUNK_BYTES)) * CHUNK_BYTES;
}

if (import.meta.main) benchmarkOnGpu("overlap of a load with an execution", overlap);

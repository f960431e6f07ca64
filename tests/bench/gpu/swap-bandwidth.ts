// Check 3 of a CUDA machine: the same sizes through PJRT, which is what swapping weights costs.
//
// Up: BufferFromHostBuffer, and TransferData in chunks of 1 to 64 MiB with 1 to 4 outstanding; down: ToHostBuffer, and
// CopyRawToHost in the same chunks. Each from pageable and from DmaMapped memory, the first time and steadily.
// Run it: bun tests/bench/gpu/swap-bandwidth.ts

import { offsetAddress } from "../../../ffi/memory.ts";
import { PjrtBuffer } from "../../../ffi/pjrt/buffer.ts";
import { HostShape } from "../../../ffi/pjrt/host-shape.ts";
import { PjrtTransfer } from "../../../ffi/pjrt/transfer.ts";
import { NativeMemory } from "../../../ffi/posix/native-memory.ts";
import { messageOf } from "../../../src/base/errors.ts";
import { type Gpu, openGpu } from "../../support/gpu.ts";
import { PJRT_TYPE, type TestPlatform } from "../../support/pjrt.ts";
import {
  bandwidth,
  benchmarkOnGpu,
  formatBytes,
  formatTable,
  MIB,
  type Repeated,
  repeatMs,
  TRANSFER_BYTES,
  touch,
  Window,
  writeInChunks,
} from "./measure.ts";

const CHUNK_BYTES = [MIB, 4 * MIB, 16 * MIB, 64 * MIB];
const OUTSTANDING = [1, 2, 3, 4];

export function swapBandwidth(gpu: Gpu): void {
  const { platform } = openGpu(gpu);
  using _ = platform;
  const rows = [["memory", "size", "way", "first GB/s", "steady GB/s"]];
  for (const byteLength of TRANSFER_BYTES) {
    for (const memory of ["pageable", "mapped"] as const) {
      using host = NativeMemory.map(byteLength);
      touch(host);
      using mapping = memory === "mapped" ? tryMap(platform, host) : undefined;
      if (memory === "mapped" && !mapping) continue;
      for (const [way, { firstMs, steadyMs }] of measureWays(platform, host)) {
        const figures = [bandwidth(byteLength, firstMs), bandwidth(byteLength, steadyMs)];
        rows.push([memory, formatBytes(byteLength), way, ...figures]);
      }
    }
  }
  console.log(formatTable(rows));
}

function tryMap({ client }: TestPlatform, host: NativeMemory): Disposable | undefined {
  try {
    return client.dmaMap(host.address, host.byteLength);
  } catch (thrown) {
    console.log(`DmaMap of ${formatBytes(host.byteLength)}: ${messageOf(thrown)}`);
    return undefined;
  }
}

function* measureWays(platform: TestPlatform, host: NativeMemory): Generator<[way: string, Repeated]> {
  const { client, device } = platform;
  const { byteLength } = host;
  const shape = new HostShape(PJRT_TYPE.U8, [byteLength]);
  yield ["BufferFromHostBuffer", repeatMs(() => uploadWhole(platform, host, shape))];

  using transfer = PjrtTransfer.create(client, device, [shape]);
  const chunkings = CHUNK_BYTES.filter((chunkBytes) => chunkBytes <= byteLength).flatMap((chunkBytes) =>
    OUTSTANDING.map((outstanding) => ({ chunkBytes, outstanding })),
  );
  for (const { chunkBytes, outstanding } of chunkings) {
    const way = `TransferData ${formatBytes(chunkBytes)} x ${outstanding}`;
    yield [way, repeatMs(() => writeInChunks(transfer, host.address, { to: byteLength, chunkBytes, outstanding }))];
  }

  // A buffer under a transfer manager has no definition yet, so that reading wants one of its own.
  using whole = PjrtBuffer.copyFromHost(client, device, host.address, shape);
  const toHost = repeatMs(() => {
    using copied = whole.toHost(host.address, byteLength);
    copied.await();
  });
  yield ["ToHostBuffer", toHost];
  for (const { chunkBytes, outstanding } of chunkings) {
    const way = `CopyRawToHost ${formatBytes(chunkBytes)} x ${outstanding}`;
    yield [way, repeatMs(() => readInChunks(whole, host, chunkBytes, outstanding))];
  }
}

function uploadWhole({ client, device }: TestPlatform, host: NativeMemory, shape: HostShape): void {
  const { buffer, hostReleased } = PjrtBuffer.transferFromHost(client, device, host.address, shape);
  using _ = buffer;
  using released = hostReleased;
  using ready = buffer.readyEvent();
  ready.await();
  released.await();
}

function readInChunks(buffer: PjrtBuffer, host: NativeMemory, chunkBytes: number, outstanding: number): void {
  const window = new Window(outstanding);
  for (let offset = 0; offset < host.byteLength; offset += chunkBytes) {
    const byteLength = Math.min(chunkBytes, host.byteLength - offset);
    window.add(buffer.rawToHost(offsetAddress(host.address, offset), offset, byteLength));
  }
  window.drain();
}

if (import.meta.main) benchmarkOnGpu("swap bandwidth through PJRT", swapBandwidth);

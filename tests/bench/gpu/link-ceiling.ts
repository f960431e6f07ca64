// Check 2 of a CUDA machine: what the link gives to pinned copies straight through libcuda, both ways, 64 KiB to 4 GiB.
//
// Everything that goes through PJRT (swap-bandwidth.ts) is to be read against these figures.
// Run it: bun tests/bench/gpu/link-ceiling.ts

import type { Gpu } from "../../support/gpu.ts";
import { bandwidth, benchmarkOnGpu, formatBytes, formatTable, repeatMs, TRANSFER_BYTES } from "./measure.ts";

export function linkCeiling({ driver, ordinal }: Gpu): void {
  using _ = driver.useDevice(ordinal);
  using stream = driver.createStream();
  const rows = [["size", "to device GB/s", "to host GB/s"]];
  for (const byteLength of TRANSFER_BYTES) {
    using host = driver.allocatePinned(byteLength);
    using device = driver.allocateDevice(byteLength);
    const up = repeatMs(() => {
      stream.copyToDevice(device.address, host.address, byteLength);
      stream.synchronize();
    });
    const down = repeatMs(() => {
      stream.copyToHost(host.address, device.address, byteLength);
      stream.synchronize();
    });
    rows.push([formatBytes(byteLength), bandwidth(byteLength, up.steadyMs), bandwidth(byteLength, down.steadyMs)]);
  }
  console.log(formatTable(rows));
}

if (import.meta.main) benchmarkOnGpu("link ceiling, pinned memory through libcuda", linkCeiling);

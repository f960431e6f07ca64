// The Device contract on a CUDA device, with plain buffers and with the arena of views. Prints why it skips without one.

import { deviceContract } from "../contract/device.ts";
import { pjrtDevice } from "../contract/device-pjrt.ts";
import { findGpu } from "../support/gpu.ts";

const gpu = findGpu();
if (gpu.skip !== undefined) {
  console.log(`tests/gpu skipped: ${gpu.skip}`);
} else {
  const { pluginPath: plugin, ordinal } = gpu;
  const memoryFraction = 0.5;
  for (const memory of ["buffers", "arena"] as const) {
    for (const threads of ["inline", "own"] as const) {
      const options = { plugin, backend: "cuda", ordinal, memory, threads, memoryFraction } as const;
      deviceContract(`cuda, ${memory}, ${threads} threads`, pjrtDevice(options));
    }
  }
}

// PJRT objects of ffi/pjrt across threads: a worker runs an executable that the main thread owns, on a client that it
// borrows, and hands the result's handles back.

import { expect, test } from "bun:test";
import { type Address, liveHandles } from "../../ffi/memory.ts";
import { PjrtBuffer } from "../../ffi/pjrt/buffer.ts";
import { PjrtEvent } from "../../ffi/pjrt/event.ts";
import { MODULES, ramp, TestPlatform } from "../support/pjrt.ts";
import { TEST_PLUGIN_NAMES, testPlugin } from "../support/plugins.ts";
import type { Launched, ToLaunch } from "./pjrt-launch.thread.ts";

async function inWorker(work: ToLaunch): Promise<Launched> {
  const worker = new Worker(new URL("./pjrt-launch.thread.ts", import.meta.url).href);
  try {
    return await new Promise((resolve, reject) => {
      worker.onmessage = (event: MessageEvent<Launched>) => resolve(event.data);
      worker.onerror = (event) => reject(new Error(event.message));
      worker.postMessage(work);
    });
  } finally {
    worker.terminate();
  }
}

for (const name of TEST_PLUGIN_NAMES) {
  const plugin = await testPlugin(name);
  if (plugin.skip) console.log(`${name} skipped: ${plugin.skip}`);
  test.skipIf(plugin.skip !== undefined)(`${name}: a worker launches, the main thread reads`, async () => {
    {
      using platform = TestPlatform.open(plugin.path!);
      using executable = platform.compile(MODULES.sumAndDifference);
      using a = platform.upload(ramp(5));
      using b = platform.upload(ramp(2));
      const launched = await inWorker({
        client: platform.client.handleForThreads,
        executable: executable.handleForThreads,
        inputs: [a.address, b.address],
      });
      expect(launched.liveInWorker).toEqual({});
      using done = PjrtEvent.adopt(platform.api, launched.done as Address);
      done.await();
      const outputs = launched.outputs.map((output) => PjrtBuffer.adopt(platform.api, output as Address));
      expect(outputs.map((output) => platform.download(output)[0])).toEqual([7, 3]);
      for (const output of outputs) output[Symbol.dispose]();
    }
    expect(liveHandles()).toEqual({});
  });
}

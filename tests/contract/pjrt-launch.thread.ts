// A thread that runs one execution on borrowed objects and gives the handles of its results away.
//
// It loads no plugin: the API is found by address. Started by pjrt-threads.test.ts.

import { type Address, liveHandles } from "../../ffi/memory.ts";
import { PjrtBuffer } from "../../ffi/pjrt/buffer.ts";
import { type ClientHandle, PjrtClient } from "../../ffi/pjrt/client.ts";
import { type ExecutableHandle, PjrtExecutable } from "../../ffi/pjrt/executable.ts";

export interface ToLaunch {
  readonly client: ClientHandle;
  readonly executable: ExecutableHandle;
  readonly inputs: readonly number[];
}

export interface Launched {
  readonly outputs: readonly number[];
  readonly done: number;
  readonly liveInWorker: Record<string, number>;
}

declare const self: Worker;

self.onmessage = async ({ data }: MessageEvent<ToLaunch>) => {
  using client = PjrtClient.borrow(data.client);
  using executable = PjrtExecutable.borrow(client.api, data.executable);
  const inputs = data.inputs.map((input) => PjrtBuffer.borrow(client.api, input as Address));
  const { outputs, done } = executable.execute(inputs);
  await done.ready();
  const launched: Launched = {
    outputs: outputs.map((output) => output.release()),
    done: done.release(),
    liveInWorker: liveHandles(),
  };
  self.postMessage(launched);
};

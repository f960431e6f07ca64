// How the main thread runs executables: through the submitter and the completer thread, or right here.
//
// Runs are launched and completed in the order of the calls. Messages carry a few numbers, never bytes: slabs and buffers
// go by address. The inline port blocks its caller until the results are there, which for a program of microseconds is
// cheaper than three messages. Used by pjrt.ts; submit.thread.ts and complete.thread.ts are the far ends.

import type { Address } from "../../ffi/memory.ts";
import { ServerError } from "../base/errors.ts";
import { spawnThread } from "../base/threads.ts";
import { Completer } from "./completer.ts";
import type { RunTiming } from "./device.ts";
import { type Flight, type LaunchableExecutable, Launcher, type LaunchTarget } from "./launcher.ts";
import { fromPlainError, type PlainError } from "./plain-error.ts";

/** To the submitter: a run as [run, executable, weights, slab, arena offset], or a command. */
export type SubmitMessage =
  | readonly number[]
  | { readonly command: "open"; readonly target: LaunchTarget; readonly completer: MessagePort }
  | { readonly command: "addExecutable"; readonly id: number; readonly executable: LaunchableExecutable }
  | { readonly command: "addWeights"; readonly id: number; readonly buffers: readonly Address[] }
  | { readonly command: "removeExecutable" | "removeWeights"; readonly id: number }
  | { readonly command: "close" };

/** Submitter to completer: [run, ...flight], a launch that failed, or the end with what the submitter still holds. */
export type FlightMessage =
  | Flight
  | { readonly run: number; readonly error: PlainError }
  | { readonly held: Record<string, number> };

/** To the completer, once. */
export interface CompleterOpening {
  readonly api: Address;
  readonly submitter: MessagePort;
}

/** Completer to main: [run, upload ns, execute ns, download ns], a run that failed, or the end. */
export type CompletionMessage =
  | readonly number[]
  | { readonly run: number; readonly error: PlainError }
  | { readonly held: readonly Record<string, number>[] };

export interface RunPort {
  addExecutable(id: number, executable: LaunchableExecutable): void;
  removeExecutable(id: number): void;
  addWeights(id: number, buffers: readonly Address[]): void;
  removeWeights(id: number): void;
  /** `quick`: the caller may be blocked for it, where nothing else is under way. */
  run(executableId: number, weightsId: number, slab: Address, arenaOffset: number, quick: boolean): Promise<RunTiming>;
  /** Settles when all runs have; the native handles that each thread still holds, by noun. */
  close(): Promise<readonly Record<string, number>[]>;
}

/** Launches and completes on the calling thread. */
export function inlineRuns(target: LaunchTarget): RunPort {
  const launcher = new Launcher(target);
  const completer = new Completer(target.client.api);
  return {
    addExecutable: (id, executable) => launcher.addExecutable(id, executable),
    removeExecutable: (id) => launcher.removeExecutable(id),
    addWeights: (id, buffers) => launcher.addWeights(id, buffers),
    removeWeights: (id) => launcher.removeWeights(id),
    run: async (executableId, weightsId, slab, arenaOffset) =>
      completer.complete(launcher.launch(executableId, weightsId, slab, arenaOffset)),
    // What this thread holds is counted by whoever else works on it.
    close: async () => [],
  };
}

/**
 * Threads, but for quick runs that find them idle: those are launched and completed on the calling thread, which saves
 * three messages and two switches between threads. Order is kept, since nothing is under way then.
 */
export function quickRuns(target: LaunchTarget, onCrash: (error: ServerError) => void): RunPort {
  const here = inlineRuns(target);
  const threads = threadedRuns(target, onCrash);
  let underWay = 0;
  const ended = () => {
    underWay--;
  };
  return {
    addExecutable(id, executable) {
      here.addExecutable(id, executable);
      threads.addExecutable(id, executable);
    },
    removeExecutable(id) {
      here.removeExecutable(id);
      threads.removeExecutable(id);
    },
    addWeights(id, buffers) {
      here.addWeights(id, buffers);
      threads.addWeights(id, buffers);
    },
    removeWeights(id) {
      here.removeWeights(id);
      threads.removeWeights(id);
    },
    run(executableId, weightsId, slab, arenaOffset, quick) {
      if (quick && underWay === 0) return here.run(executableId, weightsId, slab, arenaOffset, quick);
      underWay++;
      const timing = threads.run(executableId, weightsId, slab, arenaOffset, quick);
      timing.then(ended, ended);
      return timing;
    },
    close: () => threads.close(),
  };
}

/** Launches and completes on two threads of their own. `onCrash` is called once if one of them dies by itself. */
export function threadedRuns(target: LaunchTarget, onCrash: (error: ServerError) => void): RunPort {
  const submitter = spawnThread("device/submit.thread", { name: "device submitter" });
  const completer = spawnThread("device/complete.thread", { name: "device completer" });
  const waiting = new Map<number, PromiseWithResolvers<RunTiming>>();
  const closed = Promise.withResolvers<readonly Record<string, number>[]>();
  const { port1, port2 } = new MessageChannel();
  const send = (message: SubmitMessage) => submitter.postMessage(message);
  let sequence = 0;
  let crash: ServerError | undefined;

  submitter.postMessage({ command: "open", target, completer: port1 } satisfies SubmitMessage, [port1]);
  completer.postMessage({ api: target.client.api, submitter: port2 } satisfies CompleterOpening, [port2]);
  completer.onmessage = ({ data }: MessageEvent<CompletionMessage>) => {
    if (Array.isArray(data)) {
      const [run, uploadNs, executeNs, downloadNs] = data as [number, number, number, number];
      waiting.get(run)!.resolve({ uploadNs, executeNs, downloadNs });
      waiting.delete(run);
    } else if ("error" in data) {
      waiting.get(data.run)!.reject(fromPlainError(data.error));
      waiting.delete(data.run);
    } else if ("held" in data) {
      submitter.terminate();
      completer.terminate();
      closed.resolve(data.held);
    }
  };
  for (const thread of [submitter, completer]) {
    thread.onerror = (event) => {
      if (crash) return;
      crash = new ServerError("INTERNAL", `a device thread died: ${event.message}`);
      for (const { reject } of waiting.values()) reject(crash);
      waiting.clear();
      closed.resolve([]);
      onCrash(crash);
    };
  }
  return {
    addExecutable: (id, executable) => send({ command: "addExecutable", id, executable }),
    removeExecutable: (id) => send({ command: "removeExecutable", id }),
    addWeights: (id, buffers) => send({ command: "addWeights", id, buffers }),
    removeWeights: (id) => send({ command: "removeWeights", id }),
    run(executableId, weightsId, slab, arenaOffset) {
      if (crash) return Promise.reject(crash);
      const result = Promise.withResolvers<RunTiming>();
      waiting.set(++sequence, result);
      send([sequence, executableId, weightsId, slab, arenaOffset]);
      return result.promise;
    },
    close() {
      send({ command: "close" });
      return closed.promise;
    },
  };
}

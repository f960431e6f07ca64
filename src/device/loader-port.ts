// How the main thread reaches a Loader: on its own thread, or right here.
//
// Calls are answered in order. The loader's methods block their thread, so production uses the thread; `inspect` and tests
// that want one thread use the other. Used by pjrt.ts; load.thread.ts is the far end.

import { ServerError } from "../base/errors.ts";
import { spawnThread } from "../base/threads.ts";
import { Loader } from "./loader.ts";
import { fromPlainError, type PlainError } from "./plain-error.ts";

type LoaderMethod = {
  [K in keyof Loader]: Loader[K] extends (...args: never[]) => unknown ? K : never;
}[keyof Loader];

export interface LoaderCall {
  readonly id: number;
  readonly method: LoaderMethod;
  readonly args: readonly unknown[];
}

export type LoaderAnswer = { readonly id: number } & (
  | { readonly value: unknown; readonly error?: never }
  | { readonly error: PlainError }
);

export interface LoaderPort {
  call<M extends LoaderMethod>(method: M, ...args: Parameters<Loader[M]>): Promise<Awaited<ReturnType<Loader[M]>>>;
  /** Closes the client and ends the thread; what the thread held all the same, by noun. */
  close(): Promise<Record<string, number>>;
}

/** Answers a call on the loader's side. */
export async function answerCall(loader: Loader, method: LoaderMethod, args: readonly unknown[]): Promise<unknown> {
  return (loader[method] as (...args: unknown[]) => unknown).apply(loader, [...args]);
}

/** A loader on the calling thread, which its calls block. */
export function inlineLoader(): LoaderPort {
  const loader = new Loader();
  return {
    call: (method, ...args) => answerCall(loader, method, args) as never,
    async close() {
      loader.close();
      // What this thread holds, others on it may have made.
      return {};
    },
  };
}

/** A loader on a thread of its own. `onCrash` is called once if that thread dies by itself. */
export function threadLoader(onCrash: (error: ServerError) => void): LoaderPort {
  const thread = spawnThread("device/load.thread", { name: "device loader" });
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  let sequence = 0;
  let crash: ServerError | undefined;
  thread.onmessage = ({ data }: MessageEvent<LoaderAnswer>) => {
    const { resolve, reject } = waiting.get(data.id)!;
    waiting.delete(data.id);
    if (data.error) reject(fromPlainError(data.error));
    else resolve(data.value);
  };
  thread.onerror = (event) => {
    if (crash) return;
    crash = new ServerError("INTERNAL", `the device's loader thread died: ${event.message}`);
    for (const { reject } of waiting.values()) reject(crash);
    waiting.clear();
    onCrash(crash);
  };
  const call: LoaderPort["call"] = (method, ...args) => {
    if (crash) return Promise.reject(crash);
    const answer = Promise.withResolvers<unknown>();
    waiting.set(++sequence, answer);
    thread.postMessage({ id: sequence, method, args } satisfies LoaderCall);
    return answer.promise as never;
  };
  return {
    call,
    async close() {
      // What the dead thread held is lost with the device.
      if (crash) return {};
      try {
        await call("close");
        return await call("held");
      } finally {
        thread.terminate();
      }
    },
  };
}

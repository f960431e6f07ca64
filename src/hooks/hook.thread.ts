// A hook thread: loads the model.ts of bundles and runs their hooks, one order at a time.
//
// It believes nothing a hook does: what is thrown becomes a report for that order, what is returned is checked here. It
// may be terminated at any moment, so it owns nothing but memory. Started by thread.ts.

import { deserialize, serialize } from "bun:jsc";
import { type HookContext, InvalidInput, type ModelHooks } from "../api.ts";
import { messageOf } from "../base/errors.ts";
import { closeTensors, openTensors } from "./hook-tensors.ts";
import type { DoneReport, FailedReport, HookName, HookState, LoadOrder, Order, Report, RunOrder } from "./messages.ts";
import { defineModules } from "./modules.ts";

declare const self: Worker;

/** The thread's own door to the pool, kept where no hook can replace it. */
const post = self.postMessage.bind(self) as (report: Report, transfer?: ArrayBuffer[]) => void;

interface LoadedSet {
  readonly directory: string;
  readonly hooks: ModelHooks;
}

const sets = new Map<number, LoadedSet>();
let registered: ModelHooks | undefined;
let underway: { readonly order: number; readonly context: Context } | undefined;

/** The context of one call. Its signal is made when first asked for: most hooks never do. */
class Context implements HookContext {
  readonly parameters: HookContext["parameters"];
  readonly requestId: string;
  readonly deadlineMs: number | undefined;
  readonly state: Record<string, unknown>;
  #aborted = false;
  #controller: AbortController | undefined;

  constructor(
    order: RunOrder,
    readonly bundleDirectory: string,
  ) {
    this.parameters = Object.fromEntries(order.parameters);
    this.requestId = order.requestId;
    this.deadlineMs = order.deadlineMs;
    this.state = order.state ? deserialize(order.state) : {};
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#aborted) this.#controller.abort();
    return this.#controller.signal;
  }

  abort(): void {
    this.#aborted = true;
    this.#controller?.abort();
  }
}

async function load({ order, set, file, directory }: LoadOrder): Promise<void> {
  registered = undefined;
  try {
    await import(file);
  } catch (thrown) {
    return post(failed(order, describeImport(thrown, directory)));
  }
  const hooks = registeredHooks();
  if (!hooks) return post(failed(order, "expected a call of registerModel, none was made"));
  sets.set(set, { directory, hooks });
  const names = (["preprocess", "postprocess"] as const).filter((name) => hooks[name] !== undefined);
  post({ kind: "loaded", order, hooks: names });
}

/** What the import registered; a function, for the compiler believes that nobody has assigned since `undefined`. */
function registeredHooks(): ModelHooks | undefined {
  return registered;
}

async function run(order: RunOrder): Promise<void> {
  const { directory, hooks } = sets.get(order.set)!;
  const context = new Context(order, directory);
  underway = { order: order.order, context };
  try {
    const done = await call(order, hooks, context);
    post(
      done,
      done.tensors.map((tensor) => tensor.bytes),
    );
  } catch (thrown) {
    const code = thrown instanceof InvalidInput ? "INVALID_ARGUMENT" : "INTERNAL";
    post({ kind: "failed", order: order.order, code, message: thrownMessage(thrown) });
  } finally {
    underway = undefined;
  }
}

async function call(order: RunOrder, hooks: ModelHooks, context: Context): Promise<DoneReport> {
  const returned = await hooks[order.hook]!(openTensors(order.tensors), context);
  const tensors = closeTensors(returned);
  const state = order.hook === "preprocess" && hooks.postprocess ? stateOf(context, order.hook) : undefined;
  return { kind: "done", order: order.order, tensors, state };
}

function stateOf(context: Context, hook: HookName): HookState | undefined {
  if (Object.keys(context.state).length === 0) return undefined;
  try {
    return serialize(context.state);
  } catch (thrown) {
    throw new Error(
      `context.state, left by ${hook}: expected values that structuredClone takes: ${thrownMessage(thrown)}`,
    );
  }
}

/** The message of anything that a hook can throw, even of what has none. */
function thrownMessage(thrown: unknown): string {
  try {
    return String(messageOf(thrown));
  } catch {
    return "it threw something that cannot be shown";
  }
}

function failed(order: number, message: string): FailedReport {
  return { kind: "failed", order, code: "INTERNAL", message };
}

/** A failed import in words: syntax errors with their places, paths as seen from the bundle. */
function describeImport(thrown: unknown, directory: string): string {
  const faults = thrown instanceof AggregateError ? thrown.errors : [thrown];
  const lines = faults.map((fault: { position?: { file: string; line: number; column: number } }) => {
    const at = fault?.position;
    return at ? `${at.file}:${at.line}:${at.column}: ${thrownMessage(fault)}` : thrownMessage(fault);
  });
  return lines.join("; ").replaceAll(`${directory}/`, "");
}

defineModules((hooks) => {
  registered = hooks;
});
// An error that no order awaits (a timer's, a floating promise's) must not take the thread, and others' calls, with it.
const stray = (thrown: unknown): void => post({ kind: "stray", message: thrownMessage(thrown) });
process.on("uncaughtException", stray);
process.on("unhandledRejection", stray);
self.addEventListener("message", ({ data }: MessageEvent<Order>) => {
  if (data.kind === "load") void load(data);
  else if (data.kind === "run") void run(data);
  else if (underway?.order === data.order) underway.context.abort();
});
post({ kind: "ready" });

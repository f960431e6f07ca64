// A hook thread: loads the model.ts of bundles and runs their hooks, one order at a time.
//
// What a hook throws becomes a report for its order, what it returns is checked here, what it prints goes to the log. It
// may be terminated at any moment, so it owns nothing but memory. Bundles are trusted with the server's rights: nothing
// here stops one that ends the process, writes to its descriptors, reads what others left on the thread or forges its
// reports, nor are Workers that it starts looked after. Accidents of one bundle must not break another unseen. Started
// by thread.ts.

import { deserialize, serialize } from "bun:jsc";
import { type HookContext, InvalidInput, type ModelHooks } from "../api.ts";
import { systemClock } from "../base/clock.ts";
import { changedSince, noteBuiltIns } from "./built-ins.ts";
import { closeTensors, openTensors } from "./hook-tensors.ts";
import { LineGate } from "./line-gate.ts";
import type {
  Aside,
  DoneReport,
  HookName,
  HookState,
  LoadOrder,
  Order,
  OutputReport,
  Report,
  RunOrder,
  StrayReport,
} from "./messages.ts";
import { defineModules } from "./modules.ts";
import { captureOutput } from "./output.ts";
import { Bundles, describeImport, describeThrown } from "./thrown.ts";

declare const self: Worker;

/** The thread's own door to the pool, kept where no hook can replace it. */
const post = self.postMessage.bind(self) as (report: Report, transfer?: ArrayBuffer[]) => void;

interface LoadedSet {
  readonly directory: string;
  readonly hooks: ModelHooks;
}

const sets = new Map<number, LoadedSet>();
const bundles = new Bundles();
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

async function load({ order, set, name, file, directory }: LoadOrder): Promise<void> {
  registered = undefined;
  const builtIns = noteBuiltIns();
  try {
    bundles.add(directory, name);
    await import(file);
    const hooks = registeredHooks();
    if (!hooks) throw new Error("expected a call of registerModel, none was made");
    const names = (["preprocess", "postprocess"] as const).filter((each) => hooks[each] !== undefined);
    sets.set(set, { directory, hooks });
    post({ kind: "loaded", order, hooks: names, changed: changedSince(builtIns) });
  } catch (thrown) {
    post({ kind: "failed", order, code: "INTERNAL", ...describeImport(thrown, bundles) });
  }
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
    const described = describeThrown(thrown, bundles);
    if (isInvalidInput(thrown)) {
      post({ kind: "failed", order: order.order, code: "INVALID_ARGUMENT", ...described, stack: [] });
    } else post({ kind: "failed", order: order.order, code: "INTERNAL", ...described });
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
      `context.state, left by ${hook}: expected values that structuredClone takes: ${describeThrown(thrown, bundles).message}`,
    );
  }
}

/** A function of its own, for a Proxy may throw when it is asked what it is. */
function isInvalidInput(thrown: unknown): boolean {
  try {
    return thrown instanceof InvalidInput;
  } catch {
    return false;
  }
}

/** Posts what is for the log, as much as the log can bear. */
function asides<A extends Exclude<Aside, { kind: "dropped" }>>(of: A["kind"]): (aside: A) => void {
  const gate = new LineGate(systemClock, (lines) => post({ kind: "dropped", of, lines }));
  return (aside) => {
    if (gate.admits()) post(aside);
  };
}

const tellOutput = asides<OutputReport>("output");
captureOutput((level, text) => tellOutput({ kind: "output", level, text }));
defineModules((hooks) => {
  registered = hooks;
});
// An error that no order awaits (a timer's, a floating promise's) must not take the thread, and others' calls, with it.
const tellStray = asides<StrayReport>("stray");
const stray = (thrown: unknown): void => {
  const { message, stack } = describeThrown(thrown, bundles);
  tellStray({ kind: "stray", message, stack });
};
process.on("uncaughtException", stray);
process.on("unhandledRejection", stray);
self.addEventListener("message", ({ data }: MessageEvent<Order>) => {
  if (data.kind === "load") void load(data);
  else if (data.kind === "run") void run(data);
  else if (underway?.order === data.order) underway.context.abort();
});
post({ kind: "ready" });

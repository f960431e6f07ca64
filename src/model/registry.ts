// The registry: every bundle the server knows by name, with its state and, once ready, its Model.
//
// A name is loading, ready or unavailable (with the reason); it never leaves while models are static. Answers
// RepositoryIndex, readiness, and the one look-up by name that each Call needs.

import { ServerError } from "../base/errors.ts";
import type { Model } from "./model.ts";

export type EntryState = "loading" | "ready" | "unavailable";

export interface Entry {
  readonly name: string;
  state: EntryState;
  /** Why it is unavailable; "" otherwise. */
  reason: string;
  model: Model | undefined;
}

export class Registry implements AsyncDisposable {
  /** Told after the state of a name has changed. Must not throw. */
  onChange: (() => void) | undefined;
  private readonly byName = new Map<string, Entry>();
  private isClosed = false;

  /** Whether it was disposed: what still loads comes too late. */
  get closed(): boolean {
    return this.isClosed;
  }

  /** Announces a bundle before its load begins. */
  begin(name: string): void {
    this.put({ name, state: "loading", reason: "", model: undefined });
  }

  admit(model: Model): void {
    this.put({ name: model.name, state: "ready", reason: "", model });
  }

  refuse(name: string, reason: string): void {
    this.put({ name, state: "unavailable", reason, model: undefined });
  }

  get(name: string): Entry | undefined {
    return this.byName.get(name);
  }

  /** Sorted by name. */
  entries(): Entry[] {
    return [...this.byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  models(): Model[] {
    return this.entries().flatMap(({ model }) => model ?? []);
  }

  /** Whether every bundle is ready or unavailable. */
  get settled(): boolean {
    for (const { state } of this.byName.values()) if (state === "loading") return false;
    return true;
  }

  /** The model that a request names. Errors: NOT_FOUND; UNAVAILABLE while it loads or when its bundle is broken. */
  bind(name: string): Model {
    const entry = this.byName.get(name);
    if (!entry) throw new ServerError("NOT_FOUND", `unknown model '${name}'`);
    if (entry.model) return entry.model;
    const why = entry.state === "loading" ? "it is loading" : entry.reason;
    throw new ServerError("UNAVAILABLE", `model '${name}' is not available: ${why}`);
  }

  private put(entry: Entry): void {
    this.byName.set(entry.name, entry);
    this.onChange?.();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.isClosed = true;
    const models = this.models();
    this.byName.clear();
    for (const model of models) await model[Symbol.asyncDispose]();
  }
}

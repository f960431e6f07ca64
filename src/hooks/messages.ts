// What the pool and a hook thread say to each other, and tensors in the form in which they cross.
//
// One order is under way on a thread at a time. A tensor crosses as one transferred ArrayBuffer with the bytes of the
// wire (row-major, little-endian; BYTES with length prefixes), copied once on each side: the sender keeps its own.
// Used by thread.ts and hook.thread.ts.

import type { LogLevel } from "../base/log.ts";
import type { CallTensor, ParameterValue } from "../call/call.ts";
import { Chunks } from "../tensor/byte-source.ts";
import type { Dtype } from "../tensor/dtype.ts";
import type { Shape } from "../tensor/shape.ts";

export type HookName = "preprocess" | "postprocess";

/** A tensor between threads. */
export interface SentTensor {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: Shape;
  readonly bytes: ArrayBuffer;
}

/** `context.state` between threads: serialised values, opaque to the main thread. */
export type HookState = SharedArrayBuffer;

export interface LoadOrder {
  readonly kind: "load";
  readonly order: number;
  /** Names the bundle's generation in later orders to this thread. */
  readonly set: number;
  /** The bundle's name, for places in its files. */
  readonly name: string;
  /** Absolute paths. */
  readonly file: string;
  readonly directory: string;
}

export interface RunOrder {
  readonly kind: "run";
  readonly order: number;
  readonly set: number;
  readonly hook: HookName;
  readonly tensors: readonly SentTensor[];
  readonly parameters: readonly (readonly [string, ParameterValue])[];
  readonly requestId: string;
  readonly deadlineMs: number | undefined;
  readonly state: HookState | undefined;
}

/** Aborts the context's signal of the order under way. */
export interface AbortOrder {
  readonly kind: "abort";
  readonly order: number;
}

export type Order = LoadOrder | RunOrder | AbortOrder;

export interface LoadedReport {
  readonly kind: "loaded";
  readonly order: number;
  readonly hooks: readonly HookName[];
  /** Built-ins that the import changed for everyone on this thread, e.g. `Array.prototype.map`. */
  readonly changed: readonly string[];
}

export interface DoneReport {
  readonly kind: "done";
  readonly order: number;
  readonly tensors: readonly SentTensor[];
  readonly state: HookState | undefined;
}

export interface FailedReport {
  readonly kind: "failed";
  readonly order: number;
  readonly code: "INTERNAL" | "INVALID_ARGUMENT";
  readonly message: string;
  /** Where it was thrown, as `m/model.ts:3:7`; undefined when nobody knows. */
  readonly place: string | undefined;
  /** Frames in the bundle's files, innermost first; empty for the client's faults. */
  readonly stack: readonly string[];
}

/** An error that no order is to blame for: a timer's, a floating promise's. */
export interface StrayReport {
  readonly kind: "stray";
  readonly message: string;
  readonly stack: readonly string[];
}

/** Something that a hook printed. */
export interface OutputReport {
  readonly kind: "output";
  readonly level: LogLevel;
  readonly text: string;
}

/** How many reports of a kind were not sent, for there were too many. */
export interface DroppedReport {
  readonly kind: "dropped";
  readonly of: "stray" | "output";
  readonly lines: number;
}

/** What is told beside the answers to orders, for the log. */
export type Aside = StrayReport | OutputReport | DroppedReport;

/** `ready` comes once, when the thread listens. */
export type Report = LoadedReport | DoneReport | FailedReport | Aside | { readonly kind: "ready" };

/** A copy of the tensors to send, and what of it is to be transferred. */
export function sendTensors(tensors: readonly CallTensor[]): [sent: SentTensor[], transfer: ArrayBuffer[]] {
  const transfer: ArrayBuffer[] = [];
  const sent = tensors.map(({ name, dtype, shape, data }) => {
    const bytes = new Uint8Array(data.byteLength);
    data.copyTo(bytes, 0);
    transfer.push(bytes.buffer);
    return { name, dtype, shape, bytes: bytes.buffer };
  });
  return [sent, transfer];
}

export function receiveTensors(tensors: readonly SentTensor[]): CallTensor[] {
  return tensors.map(({ name, dtype, shape, bytes }) => ({
    name,
    dtype,
    shape,
    data: Chunks.of(new Uint8Array(bytes)),
  }));
}

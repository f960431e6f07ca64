// What passes between the server and its helper process, which compiles modules and examines plugins.
//
// One answer for each message, in order. The far end is compile-child.ts; the near ends are compile-pool.ts and
// list-plugins.ts.

import type { ClientSpec } from "./loader.ts";
import type { PlainError } from "./plain-error.ts";

/** To the helper: first the client to open, then modules; or a plugin to load and describe. */
export type CompileMessage = { readonly open: ClientSpec } | CompileRequest | { readonly probe: string };

export interface CompileRequest {
  readonly label: string;
  readonly module: Uint8Array;
  /** CompileOptionsProto. */
  readonly options: Uint8Array;
  readonly key: string;
}

/** From the helper, for each message: what went wrong, if anything. */
export interface CompileAnswer {
  readonly error?: PlainError;
  /** Why a module that did compile is not in the cache. */
  readonly unstored?: string;
  /** Of a plugin that was to be described. */
  readonly facts?: PluginFacts;
}

/** What a plugin says of itself. */
export interface PluginFacts {
  /** Of the PJRT C API, e.g. "0.115". */
  readonly apiVersion: string;
  readonly stablehloVersion: string | undefined;
}

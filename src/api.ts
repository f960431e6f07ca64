// What a bundle's model.ts imports from "xlaserver": its hooks' types, registerModel, InvalidInput.
//
// This file is the contract with code that we do not own, so it changes only by addition; xlaserver.d.ts is generated
// from it. Hook threads, and the preload of `xlaserver test`, hand this very module to every model.ts they load.

import type { Dtype } from "./tensor/dtype.ts";

export type { Dtype } from "./tensor/dtype.ts";

/** The array that holds a tensor's elements, by dtype. BF16, FP16 and the 8-bit floats are their raw bits. */
export interface TensorData {
  bool: Uint8Array;
  u8: Uint8Array;
  u16: Uint16Array;
  u32: Uint32Array;
  u64: BigUint64Array;
  i8: Int8Array;
  i16: Int16Array;
  i32: Int32Array;
  i64: BigInt64Array;
  f16: Uint16Array;
  f32: Float32Array;
  f64: Float64Array;
  bf16: Uint16Array;
  f8_e5m2: Uint8Array;
  f8_e4m3: Uint8Array;
  /** One entry an element: a KServe string, usually UTF-8. */
  bytes: Uint8Array[];
}

/** A tensor of one dtype. `shape` is in wire order (row-major); `data` holds exactly the product of its extents. */
export interface TensorOf<D extends Dtype> {
  readonly name: string;
  readonly dtype: D;
  readonly shape: readonly number[];
  readonly data: TensorData[D];
}

/** A tensor of any dtype; checking `dtype` tells TypeScript the type of `data`. */
export type Tensor = { [D in Dtype]: TensorOf<D> }[Dtype];

/** What a hook knows about its request. */
export interface HookContext {
  /** The request's parameters, as the client sent them; 64-bit integers are bigint. */
  readonly parameters: Readonly<Record<string, boolean | bigint | number | string>>;
  /** The client's id for the request; "" when it gave none. */
  readonly requestId: string;
  /** When the answer must be out, in Unix milliseconds; undefined when the client set no deadline. */
  readonly deadlineMs: number | undefined;
  /** Aborted when the client has gone or the deadline has passed. Of use in hooks that await. */
  readonly signal: AbortSignal;
  /** Absolute path of the bundle, for files that the hook reads. */
  readonly bundleDirectory: string;
  /**
   * What preprocess puts here, postprocess of the same request finds. The two may run on different threads, so the
   * values must be ones that structuredClone takes.
   */
  readonly state: Record<string, unknown>;
}

/** The hooks of a model; each is called once a request, and either may be left out. */
export interface ModelHooks {
  /** Takes the client's tensors of one request and returns every executable input, by name. */
  preprocess?(inputs: Tensor[], context: HookContext): Tensor[] | Promise<Tensor[]>;
  /** Takes the executable's outputs for this request's own rows and returns the client's outputs. */
  postprocess?(outputs: Tensor[], context: HookContext): Tensor[] | Promise<Tensor[]>;
}

/** Thrown by a hook for a mistake of the client: it gets INVALID_ARGUMENT with this message, not INTERNAL. */
export class InvalidInput extends Error {
  override readonly name = "InvalidInput";
}

let registered: ModelHooks | undefined;

/**
 * Registers the model's hooks; model.ts calls it once (the last call wins). Returns them, so that
 * `export default registerModel({...})` lets a bundle's own test call them.
 */
export function registerModel<H extends ModelHooks>(hooks: H): H {
  if (typeof hooks !== "object" || hooks === null) {
    throw new TypeError(`registerModel: expected an object with preprocess or postprocess, received ${String(hooks)}`);
  }
  for (const key of ["preprocess", "postprocess"] as const) {
    const hook: unknown = hooks[key];
    if (hook !== undefined && typeof hook !== "function") {
      throw new TypeError(`registerModel: ${key}: expected a function, received ${typeof hook}`);
    }
  }
  registered = hooks;
  return hooks;
}

/** The hooks registered last, for a bundle's own test that imports ./model.ts for its effect. Throws if there are none. */
export function registeredModel(): ModelHooks {
  if (!registered)
    throw new Error("no model is registered: import ./model.ts first, and see that it calls registerModel");
  return registered;
}

/** A context to call a hook with in a bundle's own tests; what `fields` leaves out is empty. */
export function hookContext(fields: Partial<HookContext> = {}): HookContext {
  return {
    parameters: {},
    requestId: "",
    deadlineMs: undefined,
    signal: new AbortController().signal,
    bundleDirectory: "",
    state: {},
    ...fields,
  };
}

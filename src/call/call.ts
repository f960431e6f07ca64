// Call and Reply: one inference request and its answer, in no protocol's words.
//
// wire/ makes a Call from bytes and bytes from a Reply; infer/ turns one into the other. Tensor bytes are views onto
// what the transport received or a slab holds: a Call's are valid until its Reply exists, a Reply's until release().

import type { ByteSource } from "../tensor/byte-source.ts";
import type { Dtype } from "../tensor/dtype.ts";
import type { Shape } from "../tensor/shape.ts";

/** int64 and uint64 parameters are bigint. */
export type ParameterValue = boolean | bigint | number | string;
export type Parameters = ReadonlyMap<string, ParameterValue>;

export const NO_PARAMETERS: Parameters = new Map();

/** A tensor with its bytes: row-major, little-endian; BYTES as KServe writes it (u32 length, then the bytes, each). */
export interface CallTensor {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: Shape;
  readonly data: ByteSource;
}

/** Why a call ended before its answer: its deadline passed, its client left, or the server stops. */
export type CancelReason = "deadline" | "peer" | "stopping";

export interface Call {
  readonly modelName: string;
  /** The client's id, echoed; "" when it gave none. */
  readonly id: string;
  readonly parameters: Parameters;
  readonly inputs: readonly CallTensor[];
  /** Names of the outputs asked for, in order, none twice; empty means all. */
  readonly requestedOutputs: readonly string[];
  /** When the request was complete, on the monotonic clock. */
  readonly arrivalNs: number;
  /** The transport's own deadline (grpc-timeout), on the monotonic clock. Parameters may bring an earlier one. */
  readonly deadlineNs: number | undefined;
  /** Registers a listener for the call's end before its answer; called at most once. */
  readonly onCancel: (listener: (reason: CancelReason) => void) => void;
}

export interface Reply {
  readonly modelName: string;
  readonly id: string;
  readonly outputs: readonly CallTensor[];
  /** Gives the bytes' owner (a slab) back. Call exactly once, when the bytes are written or copied. */
  readonly release: () => void;
}

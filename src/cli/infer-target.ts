// What `infer` talks to: a server, or a bundle in this process. Both take and give tensors as the wire has them.
//
// Implemented by server-target.ts and bundle-target.ts, used by infer.ts.

import type { TensorInfo, TensorValue } from "./tensor-input.ts";

export interface InferTarget extends AsyncDisposable {
  /** The tensors of the model. Errors: ServerError. */
  describe(): Promise<{ readonly inputs: readonly TensorInfo[]; readonly outputs: readonly TensorInfo[] }>;
  /** All outputs, or those that are named. Errors: ServerError. */
  infer(inputs: readonly TensorValue[], outputs: readonly string[]): Promise<TensorValue[]>;
}

// Checked: a request whose tensors are what the executable takes, known by index from here on.
//
// Made by validate (or from what a preprocess hook returned); cut into tickets by dispatch. Its bytes are views that
// stay valid until the request is settled.

import type { Model } from "../model/model.ts";
import type { ByteSource } from "../tensor/byte-source.ts";

export interface Checked {
  readonly model: Model;
  readonly variant: number;
  /** Extent of the batch axis; 1 for a model without one. */
  readonly rows: number;
  /** In the executable's order of inputs. */
  readonly inputs: readonly ByteSource[];
}

// The lists that PJRT_LoadedExecutable_Execute reads and writes, laid out once an executable and reused by each launch.
//
// PJRT wants lists of lists, one a device; we have one device. A launch allocates only the objects that it returns. Used by
// executable.ts alone.

import { type Address, Arena, addressOf, int64Array, loadUint64, storeInt64 } from "../memory.ts";
import type { PjrtApi } from "./api.ts";
import { PjrtBuffer } from "./buffer.ts";
import { PjrtEvent } from "./event.ts";
import { ExecuteOptions } from "./structs.ts";

/** A launched execution. The outputs may be used at once as inputs or for `toHost`; PJRT orders that after the execution. */
export interface Execution {
  readonly outputs: PjrtBuffer[];
  /** Ready when the device is done; throws if the execution failed. */
  readonly done: PjrtEvent;
}

/** Parameters that a program may overwrite; "unknown" where the plugin does not show its program. */
export type Donatable = readonly number[] | "unknown";

export class Launch {
  readonly options = ExecuteOptions.allocate();
  /** PJRT_Buffer* const* const*, of the inputs. */
  readonly argumentLists: Address;
  /** PJRT_Buffer** const*, of the outputs. */
  readonly outputLists: Address;
  /** PJRT_Event**, of the one event. */
  readonly doneList: Address;

  private readonly done = new Uint32Array(2);
  private readonly outputs: Uint32Array<ArrayBuffer>;
  private readonly outputPointer: Uint32Array<ArrayBuffer>;
  private readonly inputPointer = new Uint32Array(2);
  private inputs = new Uint32Array(0);
  private readonly arena = new Arena();

  constructor(
    private readonly outputCount: number,
    private readonly donatable: Donatable,
  ) {
    this.outputs = new Uint32Array(2 * Math.max(outputCount, 1));
    this.outputPointer = int64Array([addressOf(this.outputs)]);
    this.outputLists = addressOf(this.outputPointer);
    this.argumentLists = addressOf(this.inputPointer);
    this.doneList = addressOf(this.done);
    this.options.struct_size = ExecuteOptions.size;
    this.keep(donatable === "unknown" ? [] : donatable);
  }

  setInputs(inputs: readonly PjrtBuffer[]): void {
    if (inputs.length * 2 > this.inputs.length) this.grow(inputs.length);
    const words = this.inputs;
    for (let index = 0; index < inputs.length; index++) storeInt64(words, index * 2, inputs[index]!.address);
  }

  /** What the launch wrote, as objects that own it. */
  take(api: PjrtApi): Execution {
    const outputs = new Array<PjrtBuffer>(this.outputCount);
    for (let index = 0; index < this.outputCount; index++) {
      outputs[index] = PjrtBuffer.adopt(api, loadUint64(this.outputs, index * 2) as Address);
    }
    return { outputs, done: PjrtEvent.adopt(api, loadUint64(this.done, 0) as Address) };
  }

  private grow(inputCount: number): void {
    this.inputs = new Uint32Array(inputCount * 2);
    storeInt64(this.inputPointer, 0, addressOf(this.inputs));
    if (this.donatable === "unknown") this.keep(Array.from({ length: inputCount }, (_, index) => index));
  }

  /** Names the inputs that must survive. */
  private keep(indices: readonly number[]): void {
    this.options.non_donatable_input_indices = this.arena.int64s(indices);
    this.options.num_non_donatable_input_indices = indices.length;
  }
}

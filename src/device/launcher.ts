// The first half of a run: issues uploads, the execution and downloads in order, and awaits none of them.
//
// One exception: an upload into an arena is awaited, since views carry no events and the host must order the write before
// the execution. What is under way goes to completer.ts as a flat list of numbers (Flight), so that the halves may run in
// two threads or in one. Used by submit.thread.ts and, inline, by run-port.ts.

import { type Address, liveHandles, offsetAddress } from "../../ffi/memory.ts";
import { PjrtBuffer } from "../../ffi/pjrt/buffer.ts";
import { type ClientHandle, PjrtClient } from "../../ffi/pjrt/client.ts";
import { PjrtDevice } from "../../ffi/pjrt/device.ts";
import type { PjrtEvent } from "../../ffi/pjrt/event.ts";
import { type ExecutableHandle, PjrtExecutable } from "../../ffi/pjrt/executable.ts";
import { HostShape } from "../../ffi/pjrt/host-shape.ts";
import { PjrtTransfer } from "../../ffi/pjrt/transfer.ts";
import { systemClock } from "../base/clock.ts";
import { DTYPES } from "../tensor/dtype.ts";
import type { TensorType } from "../tensor/signature.ts";
import type { ArenaHandle } from "./arena.ts";
import type { SlabLayout, SlabSlot } from "./device.ts";
import { slabLayout } from "./slab.ts";

/** Where a launcher issues its work: plain data for a message. */
export interface LaunchTarget {
  readonly client: ClientHandle;
  readonly device: Address;
  /** Inputs become views of it; without, each input is a buffer of its own. */
  readonly arena: ArenaHandle | undefined;
  /** Buffers may use the slab in place: true where the device's memory is the host's. */
  readonly aliasInputs: boolean;
}

/** An executable as launchers know it. */
export interface LaunchableExecutable {
  readonly handle: ExecutableHandle;
  readonly parameters: readonly TensorType[];
  readonly results: readonly TensorType[];
}

/**
 * Work under way, as numbers: nanoseconds of the awaited upload and of the launch, then four lists, each after its length:
 * events of uploads, the execution's event, events of downloads, buffers to destroy in the end.
 */
export type Flight = number[];

interface Plan {
  readonly executable: PjrtExecutable;
  readonly layout: SlabLayout;
  readonly inputShapes: readonly HostShape[];
}

export class Launcher {
  private readonly client: PjrtClient;
  private readonly device: PjrtDevice;
  private readonly transfer: PjrtTransfer | undefined;
  private readonly executables = new Map<number, LaunchableExecutable>();
  private readonly weights = new Map<number, readonly PjrtBuffer[]>();
  /** For each executable, by how many weights it is run with. */
  private readonly plans = new Map<number, Map<number, Plan>>();

  constructor(private readonly target: LaunchTarget) {
    this.client = PjrtClient.borrow(target.client);
    this.device = new PjrtDevice(this.client.api, target.device);
    if (target.arena) this.transfer = PjrtTransfer.borrow(this.client.api, target.arena.transfer);
  }

  addExecutable(id: number, executable: LaunchableExecutable): void {
    this.executables.set(id, executable);
    this.plans.set(id, new Map());
  }

  removeExecutable(id: number): void {
    this.executables.delete(id);
    this.plans.delete(id);
  }

  addWeights(id: number, buffers: readonly Address[]): void {
    this.weights.set(
      id,
      buffers.map((buffer) => PjrtBuffer.borrow(this.client.api, buffer)),
    );
  }

  removeWeights(id: number): void {
    this.weights.delete(id);
  }

  /**
   * Issues one run on the slab at `slab`; `arenaOffset` is where its inputs go in an arena. Throws what the plugin says,
   * with nothing left under way.
   */
  launch(executableId: number, weightsId: number, slab: Address, arenaOffset: number): Flight {
    const weights = this.weights.get(weightsId) ?? [];
    const plan = this.planOf(executableId, weights.length);
    const uploads: PjrtEvent[] = [];
    const buffers: PjrtBuffer[] = [];
    const downloads: PjrtEvent[] = [];
    let done: PjrtEvent | undefined;
    try {
      const startNs = systemClock.nowNs();
      if (this.transfer) this.uploadIntoArena(plan, slab, arenaOffset, buffers);
      else this.uploadBuffers(plan, slab, uploads, buffers);
      const uploadedNs = systemClock.nowNs();
      const execution = plan.executable.execute(weights.length > 0 ? [...buffers, ...weights] : buffers);
      const launchedNs = systemClock.nowNs();
      done = execution.done;
      for (const output of execution.outputs) buffers.push(output);
      for (const [index, { offset, byteLength }] of plan.layout.outputs.entries()) {
        if (byteLength === 0) continue;
        downloads.push(execution.outputs[index]!.toHost(offsetAddress(slab, offset), byteLength));
      }
      const uploadNs = this.transfer ? uploadedNs - startNs : 0;
      return flightOf(uploadNs, launchedNs - uploadedNs, uploads, done, downloads, buffers);
    } catch (thrown) {
      for (const event of [...uploads, ...(done ? [done] : []), ...downloads]) settle(event);
      for (const buffer of buffers) buffer[Symbol.dispose]();
      throw thrown;
    }
  }

  /** Returns what this thread still holds, by noun. */
  close(): Record<string, number> {
    return liveHandles();
  }

  private planOf(executableId: number, weightCount: number): Plan {
    const plans = this.plans.get(executableId)!;
    const known = plans.get(weightCount);
    if (known) return known;
    const { handle, parameters, results } = this.executables.get(executableId)!;
    const layout = slabLayout(parameters.slice(0, parameters.length - weightCount), results);
    const plan = {
      executable: PjrtExecutable.borrow(this.client.api, handle),
      layout,
      inputShapes: layout.inputs.map(({ dtype, shape }: SlabSlot) => new HostShape(DTYPES[dtype].pjrt, shape)),
    };
    plans.set(weightCount, plan);
    return plan;
  }

  private uploadIntoArena({ layout, inputShapes }: Plan, slab: Address, arenaOffset: number, made: PjrtBuffer[]): void {
    if (layout.inputByteLength > 0) {
      using written = this.transfer!.write(0, slab, arenaOffset, layout.inputByteLength, false);
      written.await();
    }
    const start = offsetAddress(this.target.arena!.base, arenaOffset);
    for (let index = 0; index < inputShapes.length; index++) {
      const at = offsetAddress(start, layout.inputs[index]!.offset);
      made.push(PjrtBuffer.viewOfDevice(this.client, this.device, at, inputShapes[index]!));
    }
  }

  private uploadBuffers({ layout, inputShapes }: Plan, slab: Address, uploads: PjrtEvent[], made: PjrtBuffer[]): void {
    const { client, device } = this;
    for (let index = 0; index < inputShapes.length; index++) {
      const at = offsetAddress(slab, layout.inputs[index]!.offset);
      const shape = inputShapes[index]!;
      if (this.target.aliasInputs) {
        // The slab is held until the run is complete, and its buffers die before that: no need to watch this event.
        const { buffer, hostReleased } = PjrtBuffer.aliasHost(client, device, at, shape);
        made.push(buffer);
        hostReleased[Symbol.dispose]();
      } else {
        const { buffer, hostReleased } = PjrtBuffer.transferFromHost(client, device, at, shape);
        made.push(buffer);
        uploads.push(hostReleased);
      }
    }
  }
}

function flightOf(
  uploadNs: number,
  launchNs: number,
  uploads: readonly PjrtEvent[],
  done: PjrtEvent,
  downloads: readonly PjrtEvent[],
  buffers: readonly PjrtBuffer[],
): Flight {
  const flight: Flight = [uploadNs, launchNs, uploads.length];
  for (const event of uploads) flight.push(event.release());
  flight.push(1, done.release(), downloads.length);
  for (const event of downloads) flight.push(event.release());
  flight.push(buffers.length);
  for (const buffer of buffers) flight.push(buffer.release());
  return flight;
}

/** Waits for an event whose outcome no longer matters, so that nothing writes to the slab any more. */
function settle(event: PjrtEvent): void {
  try {
    event.await();
  } catch {
    // The run has failed already, for the reason that is being thrown.
  }
  event[Symbol.dispose]();
}

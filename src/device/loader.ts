// Everything slow that a device does beside running: opening a client, loading executables, moving weights.
//
// Its methods block and take and give plain data, so that one and the same class runs on the loader thread
// (load.thread.ts), on the calling thread (`inspect`, tests), and in the compile child. Handles that it gives out are
// native addresses; whoever holds one gives it back to the same loader. Used through loader-port.ts by pjrt.ts.

import { basename } from "node:path";
import { type Address, addressOf, liveHandles, NULL, offsetAddress } from "../../ffi/memory.ts";
import { PjrtBuffer } from "../../ffi/pjrt/buffer.ts";
import { type ClientHandle, PjrtClient } from "../../ffi/pjrt/client.ts";
import type { PjrtDevice } from "../../ffi/pjrt/device.ts";
import type { PjrtEvent } from "../../ffi/pjrt/event.ts";
import { type ExecutableHandle, PjrtExecutable } from "../../ffi/pjrt/executable.ts";
import { HostShape } from "../../ffi/pjrt/host-shape.ts";
import type { AttributeValue, OptionValue } from "../../ffi/pjrt/named-values.ts";
import { loadPlugin } from "../../ffi/pjrt/plugin.ts";
import { trimHeap } from "../../ffi/posix/heap.ts";
import { systemClock } from "../base/clock.ts";
import { assert, messageOf, ServerError } from "../base/errors.ts";
import { WEIGHT_CHUNK_BYTES, WEIGHT_CHUNKS_IN_FLIGHT } from "../base/limits.ts";
import { DTYPES } from "../tensor/dtype.ts";
import { type ArenaHandle, createArena, type DeviceArena } from "./arena.ts";
import { describeExecutable } from "./describe-executable.ts";
import { ExecutableCache, type ExecutableDescription } from "./executable-cache.ts";

/** A client to open. */
export interface ClientSpec {
  readonly pluginPath: string;
  readonly createOptions: Readonly<Record<string, OptionValue>>;
  /** Views into one arena instead of plain buffers; without a size, a share of the allocator's limit, if it has one. */
  readonly arena: { readonly byteLength: number | undefined } | undefined;
  readonly cache: { readonly directory: string; readonly byteBound: number } | undefined;
}

/** An open client as plain data: addresses for other threads, words for people. */
export interface OpenedClient {
  readonly client: ClientHandle;
  readonly device: Address;
  readonly arena: ArenaHandle | undefined;
  readonly platform: string;
  readonly platformVersion: string;
  readonly kind: string;
  readonly attributes: Readonly<Record<string, AttributeValue>>;
  readonly apiVersion: string;
}

export interface LoadedExecutable {
  readonly handle: ExecutableHandle;
  readonly description: ExecutableDescription;
}

/** Why a compiled module is not in the cache (no serialisation, a full disk); nothing when it is. */
export interface StoreOutcome {
  readonly unstored?: string;
}

/** What the disk had for a key; `reason` says why an entry that is there can't be used. */
export type CachedLoad =
  | { readonly loaded: LoadedExecutable; readonly reason?: never }
  | { readonly loaded?: never; readonly reason?: string };

/** One weight in host memory. */
export interface HostTensor {
  /** PJRT_Buffer_Type. */
  readonly type: number;
  readonly dims: readonly number[];
  readonly address: Address;
  /** Bytes from the first tensor's first byte. */
  readonly offset: number;
  readonly byteLength: number;
}

export class Loader {
  private client: PjrtClient | undefined;
  private device: PjrtDevice | undefined;
  private arena: DeviceArena | undefined;
  private cache: ExecutableCache | undefined;
  private readonly executables = new Map<Address, PjrtExecutable>();
  private readonly buffers = new Map<Address, PjrtBuffer>();

  /** Loads the plugin and opens its client on one device. Errors: FAILED_PRECONDITION, or the plugin's own. */
  async open(spec: ClientSpec): Promise<OpenedClient> {
    const api = loadPlugin(spec.pluginPath);
    const client = PjrtClient.create(api, spec.createOptions);
    const [device] = client.devices();
    if (!device) {
      client[Symbol.dispose]();
      throw new ServerError("FAILED_PRECONDITION", `${spec.pluginPath}: the platform has no device`);
    }
    this.client = client;
    this.device = device;
    if (spec.arena) this.arena = createArena(client, device, spec.arena.byteLength);
    if (spec.cache) {
      this.cache = await ExecutableCache.open(spec.cache.directory, spec.cache.byteBound, systemClock.wallMs());
    }
    return {
      client: client.handleForThreads,
      device: device.address,
      arena: this.arena?.handleForThreads,
      platform: client.platformName,
      platformVersion: client.platformVersion,
      kind: device.kind,
      attributes: device.attributes,
      apiVersion: `${api.version.major}.${api.version.minor}`,
    };
  }

  /** Loads the executable stored under `key`. What the plugin refuses counts as damaged. */
  loadCached(key: string): CachedLoad {
    const read = this.cache?.read(key, systemClock.wallMs());
    if (!read?.entry) return read ?? {};
    try {
      const { payload, launch, description } = read.entry;
      const executable = PjrtExecutable.deserialize(this.opened.client, payload, launch);
      return { loaded: this.keep(executable, description) };
    } catch (thrown) {
      return { reason: ServerError.from(thrown, "deserialising").message };
    }
  }

  /**
   * Compiles here and now, and stores the result where there is a cache; a result that can't be stored is still one.
   * Errors: INVALID_ARGUMENT with the compiler's message.
   */
  async compile(
    label: string,
    module: Uint8Array,
    options: Uint8Array,
    key: string,
  ): Promise<LoadedExecutable & StoreOutcome> {
    const executable = compileModule(this.opened.client, label, module, options);
    try {
      const description = describeExecutable(executable, label);
      const unstored = await this.store(key, executable, description);
      return { ...this.keep(executable, description), ...unstored };
    } catch (thrown) {
      executable[Symbol.dispose]();
      throw thrown;
    }
  }

  readCost(key: string): number | undefined {
    return this.cache?.readCost(key);
  }

  async writeCost(key: string, costNs: number): Promise<void> {
    await this.cache?.writeCost(key, costNs);
  }

  removeCached(key: string): void {
    this.cache?.remove(key);
  }

  releaseExecutable(executable: Address): void {
    this.executables.get(executable)![Symbol.dispose]();
    this.executables.delete(executable);
  }

  /**
   * Makes weights resident and waits until they are. In an arena they take `arenaOffset` on, packed as on the host;
   * else a buffer each, which aliases the host's memory where the platform can and `alias` says so.
   * Errors: RESOURCE_EXHAUSTED when they do not fit.
   */
  loadWeights(tensors: readonly HostTensor[], arenaOffset: number, alias: boolean): Address[] {
    const made: PjrtBuffer[] = [];
    try {
      if (this.arena) this.loadIntoArena(this.arena, tensors, arenaOffset, made);
      else this.loadIntoBuffers(tensors, alias, made);
    } catch (thrown) {
      for (const buffer of made) buffer[Symbol.dispose]();
      throw thrown;
    }
    for (const buffer of made) this.buffers.set(buffer.address, buffer);
    return made.map((buffer) => buffer.address);
  }

  releaseBuffers(buffers: readonly Address[]): void {
    for (const buffer of buffers) {
      this.buffers.get(buffer)![Symbol.dispose]();
      this.buffers.delete(buffer);
    }
  }

  /** Gives the heap's free memory back to the system. */
  trimHeap(): void {
    trimHeap();
  }

  /** Sends four bytes to the device and back. Errors: the plugin's, when the device is lost. */
  probe(): void {
    const { client, device } = this.opened;
    const host = new Float32Array([1]);
    using buffer = PjrtBuffer.copyFromHost(client, device, addressOf(host), new HostShape(DTYPES.f32.pjrt, [1]));
    using arrived = buffer.toHost(addressOf(host), host.byteLength);
    arrived.await();
  }

  /** Closes the client; everything given out must have come back. */
  close(): void {
    assert(this.executables.size === 0 && this.buffers.size === 0, "a device closes with nothing in use");
    this.arena?.[Symbol.dispose]();
    this.client?.[Symbol.dispose]();
    this.client = undefined;
  }

  /** The native handles that this thread holds, by noun. */
  held(): Record<string, number> {
    return liveHandles();
  }

  private get opened(): { client: PjrtClient; device: PjrtDevice } {
    const { client, device } = this;
    assert(client && device, "the client is open");
    return { client, device };
  }

  private async store(
    key: string,
    executable: PjrtExecutable,
    description: ExecutableDescription,
  ): Promise<StoreOutcome> {
    if (!this.cache) return { unstored: "there is no cache" };
    try {
      const { outputCount, donatable } = executable;
      await this.cache.write(key, { description, launch: { outputCount, donatable }, payload: executable.serialize() });
      return {};
    } catch (thrown) {
      return { unstored: messageOf(thrown) };
    }
  }

  private keep(executable: PjrtExecutable, description: ExecutableDescription): LoadedExecutable {
    this.executables.set(executable.address, executable);
    return { handle: executable.handleForThreads, description };
  }

  private loadIntoBuffers(tensors: readonly HostTensor[], alias: boolean, made: PjrtBuffer[]): void {
    const { client, device } = this.opened;
    const start = alias ? PjrtBuffer.aliasHost : PjrtBuffer.transferFromHost;
    const released: PjrtEvent[] = [];
    try {
      for (const { address, type, dims } of tensors) {
        const { buffer, hostReleased } = start(client, device, address, new HostShape(type, dims));
        made.push(buffer);
        released.push(hostReleased);
      }
      // An aliased buffer releases the host's memory at its own end; that it is ready says all there is to wait for.
      for (const buffer of made) {
        using ready = buffer.readyEvent();
        ready.await();
      }
      if (!alias) for (const event of released) event.await();
    } finally {
      for (const event of released) event[Symbol.dispose]();
    }
  }

  private loadIntoArena(
    arena: DeviceArena,
    tensors: readonly HostTensor[],
    arenaOffset: number,
    made: PjrtBuffer[],
  ): void {
    const { client, device } = this.opened;
    const source = tensors[0]?.address ?? NULL;
    // Not to the end of the last tensor's padding, where the mapped file may end.
    const last = tensors.at(-1);
    const byteLength = last ? last.offset + last.byteLength : 0;
    const outstanding: PjrtEvent[] = [];
    const failures: unknown[] = [];
    const settleOldest = () => {
      using event = outstanding.shift()!;
      try {
        event.await();
      } catch (thrown) {
        failures.push(thrown);
      }
    };
    try {
      // In chunks, so that the inputs of a batch wait for a few milliseconds of weights at most.
      for (let at = 0; at < byteLength; at += WEIGHT_CHUNK_BYTES) {
        const length = Math.min(WEIGHT_CHUNK_BYTES, byteLength - at);
        if (outstanding.length === WEIGHT_CHUNKS_IN_FLIGHT) settleOldest();
        outstanding.push(arena.transfer.write(0, offsetAddress(source, at), arenaOffset + at, length, false));
      }
    } finally {
      // Also after a failure: the host's memory may go as soon as this returns.
      while (outstanding.length > 0) settleOldest();
    }
    if (failures.length > 0) throw failures[0];
    for (const { type, dims, offset } of tensors) {
      const at = offsetAddress(arena.base, arenaOffset + offset);
      made.push(PjrtBuffer.viewOfDevice(client, device, at, new HostShape(type, dims)));
    }
  }
}

function compileModule(client: PjrtClient, label: string, module: Uint8Array, options: Uint8Array): PjrtExecutable {
  try {
    return PjrtExecutable.compile(client, module, options);
  } catch (cause) {
    const { code, message } = ServerError.from(cause, "compiling");
    // Whatever a compiler says of a module is the module's fault, unless the machine ran out of something.
    const kept = code === "RESOURCE_EXHAUSTED" ? code : "INVALID_ARGUMENT";
    throw new ServerError(kept, `${label}: ${plainCompilerMessage(label, message)}`, { cause });
  }
}

/** The parser of text modules calls its input `-`, and adds a guess about old plugins that is never right for text. */
function plainCompilerMessage(label: string, message: string): string {
  if (!/(^|\s)-:\d+:\d+: /.test(message)) return message;
  return message
    .replaceAll(/(^|\s)-:(\d+:\d+: )/g, `$1${basename(label)}:$2`)
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("<unknown>:0: error: Failed to parse using StableHLO"))
    .join("\n");
}

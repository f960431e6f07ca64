// A device's executables: from the disk, from a compile, or from another holder of the same one.
//
// Equal keys share one loaded executable, and one load of it at a time. The disk is asked first; what is missing or
// damaged there is compiled by a helper process, which stores it, and then loaded; compiling in this process is left for
// devices without a helper and for plugins that can't serialise. Used by pjrt.ts.

import { encodeCompileOptions } from "../../ffi/pjrt/compile-options.ts";
import type { ExecutableHandle } from "../../ffi/pjrt/executable.ts";
import type { Logger } from "../base/log.ts";
import type { CompilePool } from "./compile-pool.ts";
import type { ModuleSource } from "./device.ts";
import { type CompileEnvironment, executableKey } from "./executable-key.ts";
import type { LoadedExecutable } from "./loader.ts";
import type { LoaderPort } from "./loader-port.ts";
import type { RunPort } from "./run-port.ts";

export interface ExecutablesOptions {
  readonly loader: LoaderPort;
  readonly runs: RunPort;
  readonly environment: CompileEnvironment;
  /** XLA flags for every module of the device. */
  readonly xlaOptions: ModuleSource["compileOptions"];
  /** Undefined: compile in this process. */
  readonly pool: CompilePool | undefined;
  readonly log: Logger;
}

/** A loaded executable, shared by all whose key is equal. */
export interface SharedExecutable {
  readonly key: string;
  readonly id: number;
  readonly handle: ExecutableHandle;
  readonly description: LoadedExecutable["description"];
  costNs: number | undefined;
  /** Holders, and runs under way. */
  uses: number;
}

// Relative; a running average moves by this much in noise alone.
const COST_CHANGE_MIN = 0.05;

export class Executables {
  private readonly loading = new Map<string, Promise<SharedExecutable>>();
  private readonly loaded = new Map<string, SharedExecutable>();
  private sequence = 0;
  /** False once a helper could not store what it compiled, so that its work would be lost again. */
  private helperStores = true;

  constructor(private readonly options: ExecutablesOptions) {}

  /** The executable of a module, held once more; give it back with `release`. */
  async acquire(module: ModuleSource): Promise<SharedExecutable> {
    const options = encodeCompileOptions({ ...this.options.xlaOptions, ...module.compileOptions });
    const key = await executableKey(this.options.environment, module.bytes, options);
    for (;;) {
      const shared = this.loaded.get(key) ?? (await this.loadOnce(key, module, options));
      // Between the load and this continuation the first holder may have come and gone.
      if (this.loaded.get(key) !== shared) continue;
      shared.uses++;
      return shared;
    }
  }

  /** Gives one use back; the last one unloads the executable. */
  release(shared: SharedExecutable): void {
    shared.uses--;
    if (shared.uses === 0) this.unload(shared);
  }

  /** Stores a learned cost beside the cached executable; one that hardly differs from the stored one is not worth a write. */
  storeCost(shared: SharedExecutable, costNs: number): void {
    const { costNs: stored } = shared;
    if (stored !== undefined && Math.abs(costNs - stored) < stored * COST_CHANGE_MIN) return;
    shared.costNs = costNs;
    const { loader, log } = this.options;
    loader.call("writeCost", shared.key, costNs).catch((error) => log.warn("cost not stored", { error }));
  }

  /** Unloads everything, whoever holds it, once what is loading has settled. */
  async close(): Promise<void> {
    await Promise.allSettled(this.loading.values());
    for (const shared of [...this.loaded.values()]) this.unload(shared);
  }

  private unload(shared: SharedExecutable): void {
    // A later load of the same key may have taken its place.
    if (this.loaded.get(shared.key) === shared) this.loaded.delete(shared.key);
    else return;
    this.options.runs.removeExecutable(shared.id);
    const { loader, log } = this.options;
    loader
      .call("releaseExecutable", shared.handle.executable)
      .catch((error) => log.error("executable not released", { error }));
  }

  private loadOnce(key: string, module: ModuleSource, options: Uint8Array): Promise<SharedExecutable> {
    const under = this.loading.get(key);
    if (under) return under;
    const load = this.load(key, module, options).finally(() => this.loading.delete(key));
    this.loading.set(key, load);
    return load;
  }

  private async load(key: string, module: ModuleSource, options: Uint8Array): Promise<SharedExecutable> {
    const { loader, runs, log } = this.options;
    const cached = await loader.call("loadCached", key);
    if (cached.reason) {
      log.warn("cached executable unusable, compiling anew", { module: module.label, reason: cached.reason });
      // What can't be removed is written over, or else in nobody's way: the module is served without the cache.
      await loader.call("removeCached", key).catch((error) => log.warn("cached executable not removed", { error }));
    }
    const { handle, description } = cached.loaded ?? (await this.compile(key, module, options));
    const costNs = await loader.call("readCost", key);
    const shared: SharedExecutable = { key, id: ++this.sequence, handle, description, costNs, uses: 0 };
    const { parameters, results } = description;
    runs.addExecutable(shared.id, { handle, parameters, results });
    this.loaded.set(key, shared);
    return shared;
  }

  private async compile(key: string, module: ModuleSource, options: Uint8Array): Promise<LoadedExecutable> {
    const { loader, pool, log } = this.options;
    const { label, bytes } = module;
    if (pool && this.helperStores) {
      const { unstored } = await pool.compile({ label, module: bytes, options, key });
      this.helperStores = unstored === undefined;
      const { loaded, reason } = await loader.call("loadCached", key);
      if (loaded) return loaded;
      log.warn("compiling in this process", { module: label, reason: unstored ?? reason ?? "the stored one is gone" });
    }
    return loader.call("compile", label, bytes, options, key);
  }
}

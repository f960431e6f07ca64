// Opening a device: choose a plugin, load it, open a client on one device, and put the parts of PjrtDevice together.
//
// The plugin never sees XLA_FLAGS: XLA aborts the process on a flag that it does not know, so the variable is removed,
// with a warning, and flags go through compile options. The one way in for worker/ and the commands.

import { availableParallelism } from "node:os";
import type { OptionValue } from "../../ffi/pjrt/named-values.ts";
import { type Clock, systemClock } from "../base/clock.ts";
import { messageOf, ServerError } from "../base/errors.ts";
import { makeDirectory } from "../base/files.ts";
import { COMPILE_HELPERS_MAX, EXECUTABLE_CACHE_BYTES_MAX } from "../base/limits.ts";
import type { Logger } from "../base/log.ts";
import { CompilePool } from "./compile-pool.ts";
import type { Device, DeviceInfo, ModuleSource } from "./device.ts";
import { digestOf } from "./digests.ts";
import { type CompileEnvironment, describeHost } from "./executable-key.ts";
import type { LaunchTarget } from "./launcher.ts";
import type { ClientSpec, OpenedClient } from "./loader.ts";
import { inlineLoader, threadLoader } from "./loader-port.ts";
import { prepareNativeEnvironment } from "./native-environment.ts";
import { PjrtDevice } from "./pjrt.ts";
import { type Backend, choosePlugin } from "./plugins.ts";
import { inlineRuns, quickRuns, type RunPort, threadedRuns } from "./run-port.ts";

export interface DeviceOptions {
  readonly backend: Backend;
  /** Which of the platform's devices. */
  readonly ordinal: number;
  /** Path of the plugin; undefined to search (plugins.ts). */
  readonly plugin?: string | undefined;
  /** Where plugins, executables and images are kept. */
  readonly cacheDirectory: string;
  /** Bound of the native memory for slabs, in bytes. */
  readonly slabBytes: number;
  /** Share of the accelerator's memory, (0,1]. */
  readonly memoryFraction: number;
  readonly preallocate: boolean;
  /** The plugin's allocator, e.g. "bfc"; undefined for its default. Unused on cpu. */
  readonly allocator?: string | undefined;
  /** XLA flags of every module; a module's own win. */
  readonly xlaOptions: ModuleSource["compileOptions"];
  readonly log: Logger;
  readonly clock?: Clock;
  /** `helper` (default): in a process of its own. `inline`: in this one, for commands that end soon. */
  readonly compile?: "helper" | "inline";
  /** `own` (default): a loader, a submitter and a completer. `inline`: the calling thread, which every call blocks. */
  readonly threads?: "own" | "inline";
  /** How arguments reach an execution; chosen by the platform unless given. */
  readonly memory?: DeviceInfo["memory"];
  /** Bytes of the arena; a share of the allocator's limit unless given. */
  readonly arenaBytes?: number;
}

/**
 * Opens the device.
 * Errors: FAILED_PRECONDITION with one line for a plugin that is missing, no plugin or too old; the plugin's own when
 * the platform refuses.
 */
export async function openDevice(options: DeviceOptions): Promise<Device> {
  const { backend, cacheDirectory, log, clock = systemClock } = options;
  await makeDirectory(cacheDirectory);
  const pluginPath = await choosePlugin(backend, { path: options.plugin, environment: process.env, cacheDirectory });
  const pluginSha256 = await digestOf(pluginPath, cacheDirectory);
  const flags = prepareNativeEnvironment();
  if (flags) log.warn("XLA_FLAGS is ignored: use runtime.xla_options or a manifest's compile_options", { flags });
  const memory = options.memory ?? (backend === "cuda" ? "arena" : "buffers");
  const spec: ClientSpec = {
    pluginPath,
    createOptions: createOptions(options),
    arena: memory === "arena" ? { byteLength: options.arenaBytes } : undefined,
    cache: { directory: cacheDirectory, byteBound: EXECUTABLE_CACHE_BYTES_MAX },
  };

  let device: PjrtDevice | undefined;
  const onCrash = (error: ServerError) => device?.lose(error);
  const inline = options.threads === "inline";
  const loader = inline ? inlineLoader() : threadLoader(onCrash);
  let opened: OpenedClient;
  try {
    opened = await loader.call("open", spec);
  } catch (thrown) {
    await loader.close();
    throw new ServerError("FAILED_PRECONDITION", `no device: ${messageOf(thrown)}`, { cause: thrown });
  }
  const aliasInputs = opened.platform === "cpu";
  const target: LaunchTarget = { client: opened.client, device: opened.device, arena: opened.arena, aliasInputs };
  device = new PjrtDevice({
    info: {
      platform: opened.platform,
      kind: opened.kind,
      ordinal: options.ordinal,
      plugin: { path: pluginPath, apiVersion: opened.apiVersion, sha256: pluginSha256 },
      memory: opened.arena ? "arena" : "buffers",
    },
    opened,
    loader,
    runs: runsOf(options, target, onCrash),
    environment: compileEnvironment(pluginSha256, spec, opened),
    xlaOptions: options.xlaOptions,
    compilePool: options.compile === "inline" ? undefined : new CompilePool(helperSpec(spec), helpers(), clock),
    slabBytes: options.slabBytes,
    clock,
    log,
  });
  return device;
}

function createOptions(options: DeviceOptions): ClientSpec["createOptions"] {
  const { backend, ordinal, memoryFraction, preallocate, allocator } = options;
  if (backend === "cpu") {
    if (ordinal !== 0) throw new ServerError("FAILED_PRECONDITION", `no device: cpu has device 0 only, not ${ordinal}`);
    return { cpu_device_count: 1 };
  }
  const accelerator: Record<string, OptionValue> = {
    visible_devices: [ordinal],
    memory_fraction: { float: memoryFraction },
    preallocate,
  };
  if (allocator !== undefined) accelerator.allocator = allocator;
  return accelerator;
}

/** On the CPU a small program runs fastest where its caller is; an accelerator's transfers are not to be waited for. */
function runsOf({ threads }: DeviceOptions, target: LaunchTarget, onCrash: (error: ServerError) => void): RunPort {
  if (threads === "inline") return inlineRuns(target);
  return target.aliasInputs && !target.arena ? quickRuns(target, onCrash) : threadedRuns(target, onCrash);
}

/** The helper shares the accelerator with this process, so it takes memory as it needs it, and no arena. */
function helperSpec(spec: ClientSpec): ClientSpec {
  const { preallocate, ...rest } = spec.createOptions;
  const createOptions = preallocate === undefined ? rest : { ...rest, preallocate: false };
  return { ...spec, createOptions, arena: undefined };
}

// A compile uses several threads of its own.
function helpers(): number {
  return Math.max(1, Math.min(COMPILE_HELPERS_MAX, Math.floor(availableParallelism() / 2)));
}

function compileEnvironment(pluginSha256: string, spec: ClientSpec, opened: OpenedClient): CompileEnvironment {
  const { platform, platformVersion, kind, attributes } = opened;
  // How much memory the client takes does not change what is compiled; which device it is, the other fields say.
  const { memory_fraction: _, preallocate: __, visible_devices: ___, ...clientOptions } = spec.createOptions;
  return {
    pluginSha256,
    clientOptions,
    platform,
    platformVersion,
    deviceKind: kind,
    deviceAttributes: attributes,
    ...describeHost(process.env),
  };
}

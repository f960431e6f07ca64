// Core: everything between the sockets and the device, put together from a Config.
//
// Models load into it, requests run through its Inference. The server (server.ts) puts ports before it; the CLI's
// in-process commands use it bare. Disposing waits for what is with the device; let calls end first.

import { systemClock } from "../base/clock.ts";
import { SLAB_POOL_BYTES_MAX } from "../base/limits.ts";
import { log } from "../base/log.ts";
import { createRequestLog } from "../base/request-log.ts";
import type { Config } from "../config/config.ts";
import type { Device } from "../device/device.ts";
import { openImage } from "../device/image.ts";
import { type DeviceOptions, openDevice } from "../device/open-device.ts";
import { createHookPool, type HookPool } from "../hooks/pool.ts";
import { Admission } from "../infer/admission.ts";
import { Dispatcher } from "../infer/dispatch.ts";
import type { Inference } from "../infer/inference.ts";
import type { ModelHost } from "../model/load.ts";
import { Registry } from "../model/registry.ts";
import { Fifo } from "../schedule/fifo.ts";
import { Scheduler } from "../schedule/scheduler.ts";

export interface Core extends AsyncDisposable {
  readonly device: Device;
  readonly hooks: HookPool;
  readonly registry: Registry;
  readonly dispatcher: Dispatcher;
  readonly inference: Inference;
  readonly host: ModelHost;
}

export async function openCore(config: Config): Promise<Core> {
  await using opened = new AsyncDisposableStack();
  const clock = systemClock;
  const device = opened.use(await openWithFallback(config));
  const hooks = opened.use(
    createHookPool({ threads: config.hooks.threads, memoryBoundBytes: config.hooks.memoryBoundBytes, clock, log }),
  );
  const registry = opened.use(new Registry());
  const scheduler = new Scheduler(new Fifo());
  const dispatcher = new Dispatcher({ device, scheduler, clock, log, resultBytesMax: config.grpc.maxSendMsgBytes });
  const admission = new Admission(config.endpoints.maxInflightBytes);
  const requestLog = createRequestLog(config.logging.requests, config.logging.format);
  const { maxQueueDepth, models, costEmaAlpha } = config.scheduler;
  const host: ModelHost = {
    device,
    hooks,
    scheduler,
    clock,
    log,
    openImage: (source) => openImage(source, config.cacheDir),
    limits: (name) => ({
      maxBatchSize: models[name]?.maxBatchSize ?? Infinity,
      maxQueueDepth,
      maxQueueDelayUs: models[name]?.maxQueueDelayUs,
    }),
    costEmaAlpha,
  };
  const owned = opened.move();
  return {
    device,
    hooks,
    registry,
    dispatcher,
    host,
    inference: { registry, dispatcher, admission, clock, log, requestLog, unknownModel: new Map() },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The configured device, or the CPU where an accelerator can't be had and the operator allows it. */
async function openWithFallback(config: Config): Promise<Device> {
  const { backend, allowCpuFallback } = config.runtime;
  try {
    return await openDevice(deviceOptions(config, backend));
  } catch (error) {
    if (backend === "cpu" || !allowCpuFallback) throw error;
    log.warn("serving on the CPU: the accelerator can't be opened", { backend, error });
    return openDevice({ ...deviceOptions(config, "cpu"), plugin: undefined, ordinal: 0 });
  }
}

function deviceOptions(config: Config, backend: "cpu" | "cuda"): DeviceOptions {
  const { deviceOrdinal, plugin, memFraction, preallocate, allocator, xlaOptions } = config.runtime;
  return {
    backend,
    ordinal: deviceOrdinal,
    plugin: plugin || undefined,
    cacheDirectory: config.cacheDir,
    slabBytes: SLAB_POOL_BYTES_MAX,
    memoryFraction: memFraction,
    preallocate,
    allocator: allocator === "default" ? undefined : allocator,
    xlaOptions,
    log,
  };
}

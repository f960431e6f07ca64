// A bundle in this process as the target of `infer`: the server's core without its sockets.
//
// Compiles, or takes from the executable cache, and runs hooks as the server does. Opening it also serves inspect and
// validate, which look at the loaded Model.

import { dirname, join, resolve } from "node:path";
import { systemClock } from "../base/clock.ts";
import { isFile } from "../base/files.ts";
import { configureLog } from "../base/log.ts";
import type { Bundle } from "../bundle/bundle.ts";
import { discoverBundles } from "../bundle/discover.ts";
import { loadBundle, MANIFEST_NAME } from "../bundle/load.ts";
import { NO_PARAMETERS } from "../call/call.ts";
import { infer } from "../infer/request.ts";
import { load } from "../model/repository.ts";
import { Chunks } from "../tensor/byte-source.ts";
import { type TensorSpec, wireShape } from "../tensor/signature.ts";
import { type Core, openCore } from "../worker/core.ts";
import { type Arguments, UsageError } from "./arguments.ts";
import { deviceSettings } from "./device-flags.ts";
import type { InferTarget } from "./infer-target.ts";
import { readConfig, warn } from "./settings.ts";
import type { TensorInfo } from "./tensor-input.ts";

/** A core for the bundles below `directory`, settings from flags and environment; it logs warnings and errors only. */
export async function openCoreFor(directory: string, args: Arguments): Promise<Core> {
  const directories = { label: "DIR", path: ["model_dirs"], text: [resolve(directory)] };
  const { config, warnings } = await readConfig(undefined, [directories, ...deviceSettings(args)]);
  warn(warnings);
  configureLog({ level: config.logging.level === "debug" ? "debug" : "warn", format: config.logging.format });
  return openCore(config);
}

/** The bundle in `directory`. Errors: as loadBundle; UsageError for a directory of bundles. */
export function readBundle(directory: string): Bundle {
  if (!isFile(join(directory, MANIFEST_NAME))) {
    const names = discoverBundles([directory]).candidates.map(({ name }) => name);
    if (names.length > 0) {
      throw new UsageError(`'${directory}' is no bundle, it holds bundles; give one of them: ${names.join(", ")}`);
    }
  }
  return loadBundle(directory);
}

/** Errors: IssuesError when the bundle is not sound; those of the device, the compiler and the hooks. */
export async function bundleTarget(directory: string, args: Arguments): Promise<InferTarget> {
  const bundle = readBundle(directory);
  await using opened = new AsyncDisposableStack();
  const core = opened.use(await openCoreFor(dirname(resolve(directory)), args));
  await load(bundle, core.registry, core.host);
  const { inputs, outputs } = bundle.client;
  const owned = opened.move();
  return {
    describe: async () => ({ inputs: inputs.map(tensorInfo), outputs: outputs.map(tensorInfo) }),
    async infer(values, requestedOutputs) {
      const reply = await infer(core.inference, core.registry.bind(bundle.name), {
        modelName: bundle.name,
        id: "",
        parameters: NO_PARAMETERS,
        inputs: values.map(({ name, dtype, shape, bytes }) => ({ name, dtype, shape, data: Chunks.of(bytes) })),
        requestedOutputs,
        arrivalNs: systemClock.nowNs(),
        deadlineNs: undefined,
        onCancel: () => {},
      });
      try {
        // Copied: the slab that the views lie in goes back with release().
        return reply.outputs.map(({ name, dtype, shape, data }) => ({
          name,
          dtype,
          shape,
          bytes: data.contiguous().slice(),
        }));
      } finally {
        reply.release();
      }
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function tensorInfo(spec: TensorSpec): TensorInfo {
  return { name: spec.name, dtype: spec.dtype, shape: wireShape(spec) };
}

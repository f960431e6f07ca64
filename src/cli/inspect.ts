// `xlaserver inspect DIR`: what a bundle is once compiled: signature, weights, memory, cost.
//
// Loads the bundle as the server does, so its numbers are the compiler's and the warm-up's, not estimates of ours.

import { dirname, resolve } from "node:path";
import { loadModel } from "../model/load.ts";
import type { Command } from "./arguments.ts";
import { openCoreFor, readBundle } from "./bundle-target.ts";
import { type BundleView, type ModuleView, viewOf } from "./bundle-view.ts";
import { DEVICE_FLAGS } from "./device-flags.ts";
import { formatBytes, JSON_FLAG, print, printJson, table, wantsJson } from "./output.ts";

export const command: Command = {
  usage: "DIR [flags]",
  words: [1, 1],
  flags: { ...DEVICE_FLAGS, json: JSON_FLAG },
  async run(args) {
    const directory = resolve(args.words[0]!);
    const bundle = readBundle(directory);
    await using core = await openCoreFor(dirname(directory), args);
    await using model = await loadModel(bundle, 1, core.host);
    const { platform, kind, plugin } = core.device.info;
    const view = viewOf(model);
    const device = { platform, kind, pluginApiVersion: plugin.apiVersion };
    if (wantsJson(args)) await printJson({ ...view, device });
    else await print(`${inWords(view)}\ncompiled for ${platform} (${kind}), PJRT C API ${plugin.apiVersion}\n`);
    return 0;
  },
};

function inWords(view: BundleView): string {
  const { name, description, formatVersion, hooks, maxBatchSize, weightTensors, weightBytes } = view;
  const title = `${name}${description === "" ? "" : `: ${description}`}\nformat ${formatVersion}, ${view.directory}`;
  const weights = weightTensors === 0 ? "no weights" : `${weightTensors} weights, ${formatBytes(weightBytes)}`;
  const batches = maxBatchSize === 0 ? "one request at a time" : `batches up to ${maxBatchSize}`;
  const tensors = table(
    ["", "NAME", "TYPE", "SHAPE"],
    view.tensors.map((tensor) => [tensor.role, tensor.name, tensor.dtype, tensor.shape]),
  );
  const warnings = view.warnings.map((warning) => `warning: ${warning}\n`).join("");
  return `${title}\n${weights}; ${batches}; ${hooks ? "hooks in model.ts" : "no hooks"}\n${warnings}\n${tensors}\n${modules(view.modules)}`;
}

function modules(views: readonly ModuleView[]): string {
  const rows = views.map((view) => [
    view.variant || "-",
    view.batchSize === 0 ? "as compiled" : String(view.batchSize),
    formatBytes(view.argumentBytes),
    formatBytes(view.outputBytes),
    formatBytes(view.temporaryBytes),
    formatBytes(view.codeBytes),
    view.flops === null ? "-" : formatWork(view.flops),
    view.costMs === null ? "-" : `${formatNumber(view.costMs)} ms`,
  ]);
  return table(["VARIANT", "BATCH", "ARGUMENTS", "OUTPUTS", "SCRATCH", "CODE", "WORK", "COST"], rows);
}

/** 21.3 GFLOP. */
function formatWork(flops: number): string {
  const units = ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"];
  const unit = Math.min(Math.max(Math.floor(Math.log10(Math.max(flops, 1)) / 3), 0), units.length - 1);
  return `${formatNumber(flops / 1000 ** unit)} ${units[unit]}`;
}

/** Three digits that matter, never an exponent. */
function formatNumber(value: number): string {
  return value >= 100 ? String(Math.round(value)) : value.toPrecision(3);
}

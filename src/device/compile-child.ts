// The far end of compile-pool.ts and list-plugins.ts: a process of its own that compiles modules into the executable
// cache, one by one, or loads a plugin to see whether it can be loaded.
//
// Compiled, it is `xlaserver __compile`; from source, Bun runs this file. It gives way to everything else on the machine,
// and ends when its parent does.

import { loadPlugin, pluginAttributes } from "../../ffi/pjrt/plugin.ts";
import { lowerPriority, serveParent } from "../base/processes.ts";
import { compiled } from "../base/program.ts";
import type { CompileAnswer, CompileMessage, PluginFacts } from "./compile-messages.ts";
import { Loader } from "./loader.ts";
import { prepareNativeEnvironment } from "./native-environment.ts";
import { toPlainError } from "./plain-error.ts";

/** Serves the process that started this one; never settles, since the process ends with its parent. */
export function runCompileChild(): Promise<never> {
  // Before the plugin starts its threads, which inherit it.
  lowerPriority();
  prepareNativeEnvironment();
  const loader = new Loader();
  serveParent(async (message): Promise<CompileAnswer> => {
    try {
      return await handle(loader, message as CompileMessage);
    } catch (thrown) {
      return { error: toPlainError(thrown) };
    }
  });
  return new Promise(() => {});
}

async function handle(loader: Loader, message: CompileMessage): Promise<CompileAnswer> {
  if ("open" in message) {
    await loader.open(message.open);
    return {};
  }
  if ("probe" in message) return { facts: describePlugin(message.probe) };
  const { label, module, options, key } = message;
  const { handle, unstored } = await loader.compile(label, module, options, key);
  loader.releaseExecutable(handle.executable);
  return unstored === undefined ? {} : { unstored };
}

function describePlugin(path: string): PluginFacts {
  const api = loadPlugin(path);
  const stablehlo = pluginAttributes(api).stablehlo_current_version;
  return {
    apiVersion: `${api.version.major}.${api.version.minor}`,
    stablehloVersion: Array.isArray(stablehlo) ? stablehlo.join(".") : undefined,
  };
}

// In the bundle of an executable every module says that it is the main one.
if (import.meta.main && !compiled) void runCompileChild();

// The table of `xlaserver plugins`: every plugin that was found, in order of preference, and what is wrong with it.
//
// Each is loaded in a process of its own, since a broken library can take its process along (a constructor that crashes,
// another library's symbols), and two plugins in one process may not get along. Finding is plugins.ts's business.

import { type Clock, systemClock } from "../base/clock.ts";
import { messageOf, ServerError } from "../base/errors.ts";
import { PLUGIN_PROBE_NS } from "../base/limits.ts";
import { describeExit, spawnHelper } from "../base/processes.ts";
import type { CompileAnswer, CompileMessage, PluginFacts } from "./compile-messages.ts";
import { fromPlainError } from "./plain-error.ts";
import { findPlugins, type PluginCandidate, type PluginSearch } from "./plugins.ts";
import { sharedObjectFault } from "./shared-object.ts";

export interface PluginRow extends Omit<PluginCandidate, "path"> {
  readonly path: string;
  readonly facts?: PluginFacts;
  /** Why it can't be used; undefined when it can. */
  readonly rejected?: string;
}

/** Rows in order of preference; the first one of a backend that is not rejected is the one that a server would take. */
export async function listPlugins(search: PluginSearch, clock: Clock = systemClock): Promise<PluginRow[]> {
  return Promise.all(findPlugins(search).map((candidate) => examine(candidate, clock)));
}

async function examine(candidate: PluginCandidate, clock: Clock): Promise<PluginRow> {
  const { origin, name, version, backend } = candidate;
  const row = { origin, name, version, backend };
  let path = "";
  try {
    path = await candidate.path();
    const fault = sharedObjectFault(path);
    if (fault) return { ...row, path, rejected: fault };
    return { ...row, path, facts: await probe(path, clock) };
  } catch (thrown) {
    return { ...row, path, rejected: messageOf(thrown) };
  }
}

/** Loads the plugin in a helper and asks it. Errors: FAILED_PRECONDITION with the reason. */
async function probe(path: string, clock: Clock): Promise<PluginFacts> {
  const answered = Promise.withResolvers<CompileAnswer>();
  using helper = spawnHelper("__compile", "device/compile-child.ts", {
    onMessage: (message) => answered.resolve(message as CompileAnswer),
  });
  helper.send({ probe: path } satisfies CompileMessage);
  const timer = clock.after(PLUGIN_PROBE_NS, () => {
    answered.reject(new ServerError("DEADLINE_EXCEEDED", "loading it takes too long"));
  });
  void helper.exited.then((exit) => {
    answered.reject(new ServerError("FAILED_PRECONDITION", `loading it ends the process with ${describeExit(exit)}`));
  });
  try {
    const { error, facts } = await answered.promise;
    if (error) throw fromPlainError(error);
    return facts!;
  } finally {
    timer.cancel();
  }
}

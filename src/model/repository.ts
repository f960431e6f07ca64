// The repository: every bundle of the model directories, loaded once, a few at a time, each on its own account.
//
// A bundle that is broken becomes an unavailable entry with its reason; it stops nobody. Called by worker/ at start;
// the set of models is fixed from then on (model_control_mode static).

import { messageOf } from "../base/errors.ts";
import { BUNDLE_LOADS_MAX } from "../base/limits.ts";
import { didYouMean } from "../base/nearest.ts";
import type { Bundle } from "../bundle/bundle.ts";
import { type Candidate, discoverBundles, readCandidate } from "../bundle/discover.ts";
import { loadModel, type ModelHost } from "./load.ts";
import type { Registry } from "./registry.ts";

export interface RepositoryOptions {
  readonly directories: readonly string[];
  /** Names to serve; empty means all. */
  readonly include: readonly string[];
}

/**
 * Loads all bundles and resolves when every one has settled in the registry.
 * Errors: NOT_FOUND when a model directory can't be read, INVALID_ARGUMENT when it is itself a bundle.
 */
export async function loadRepository(options: RepositoryOptions, registry: Registry, host: ModelHost): Promise<void> {
  const { log } = host;
  const { candidates, ignored, rootErrors } = discoverBundles(options.directories);
  if (rootErrors[0]) throw rootErrors[0];
  for (const { directory, reason } of ignored) log.warn("directory ignored", { directory, reason });
  const wanted = candidates.filter(({ name }) => options.include.length === 0 || options.include.includes(name));
  for (const name of options.include) {
    if (wanted.some((candidate) => candidate.name === name)) continue;
    const near = didYouMean(
      name,
      candidates.map((candidate) => candidate.name),
    );
    const reason = `no bundle of this name in ${options.directories.join(", ")}${near}`;
    registry.refuse(name, reason);
    log.error("model unavailable", { model: name, error: reason });
  }
  // Of two bundles with one name the first is served; the second is only reported, it must not take the name's entry.
  for (const { error } of wanted) if (error) log.error("bundle ignored", { error });
  const candidatesByName = wanted.filter(({ error }) => !error);
  for (const { name } of candidatesByName) registry.begin(name);
  const waiting = candidatesByName.values();
  await Promise.all(Array.from({ length: BUNDLE_LOADS_MAX }, () => loadInTurn(waiting, registry, host)));
}

/** Loads candidates one after another until none is left; several calls share the list. */
async function loadInTurn(waiting: Iterator<Candidate>, registry: Registry, host: ModelHost): Promise<void> {
  for (let next = waiting.next(); !next.done && !registry.closed; next = waiting.next()) {
    const candidate = next.value;
    const { name } = candidate;
    // Reading a bundle takes its time on this thread: the ports get a turn before each.
    await new Promise<void>((resolve) => host.clock.soon(resolve));
    try {
      const { bundle, error } = readCandidate(candidate);
      if (!bundle) throw error;
      await load(bundle, registry, host);
    } catch (thrown) {
      // The server was stopped while it loaded: nothing is wrong with the bundle.
      if (registry.closed) return;
      registry.refuse(name, messageOf(thrown));
      host.log.error("model unavailable", { model: name, error: thrown });
    }
  }
}

/** Loads one bundle into the registry. Errors: as loadModel. */
export async function load(bundle: Bundle, registry: Registry, host: ModelHost): Promise<void> {
  const { clock, log } = host;
  const startNs = clock.nowNs();
  for (const warning of bundle.warnings) log.warn("bundle", { model: bundle.name, warning });
  const model = await loadModel(bundle, 1, host);
  if (registry.closed) return model[Symbol.asyncDispose]();
  registry.admit(model);
  const units = model.units.flat();
  log.info("model ready", {
    model: model.name,
    variants: bundle.variants.length,
    sizes: [...new Set(units.map(({ batchSize }) => batchSize))].join(","),
    weightBytes: model.weights?.byteLength ?? 0,
    scratchBytes: Math.max(...units.map(({ executable }) => executable.memory.temporaryBytes)),
    hooks: bundle.hooks !== undefined,
    ms: Math.round((clock.nowNs() - startNs) / 1e6),
  });
}

// The node file: YAML to a checked mapping, and from there to the settings of its one worker.
//
// Values stay as the file wrote them (snake_case, no defaults): load.ts lays overrides over them and fills in the rest.
// Every issue of the file is collected. Used by load.ts.

import { dirname, resolve } from "node:path";
import type * as v from "valibot";
import type { Issue } from "../base/errors.ts";
import { parseYaml } from "../base/yaml.ts";
import { check, show } from "./findings.ts";
import type { JsonSchema } from "./json-schema.ts";
import type { Override } from "./overrides.ts";
import { absolutePath } from "./paths.ts";
import { nodeSchema } from "./schema.ts";

type Mapping = Record<string, unknown>;
type NodeFile = v.InferInput<typeof nodeSchema>;

/** The settings of a worker before defaults, and its name when the file gives one. */
export interface WorkerSettings {
  readonly name: string | undefined;
  readonly settings: Mapping;
}

const SUPERVISOR = "the supervisor, which runs several, is not in this version";

/** The file's worker. Paths in it are made absolute from the file's directory. Issues are added to `issues`. */
export function readNodeFile(path: string, text: string, json: JsonSchema, issues: Issue[]): WorkerSettings {
  const nothing = { name: undefined, settings: {} };
  const yaml = parseYaml(text);
  issues.push(...yaml.issues);
  if (yaml.issues.length > 0) return nothing;
  const value = yaml.value ?? {};
  const found = check(nodeSchema, json, value);
  issues.push(...found);
  if (found.length > 0) return nothing;

  const node = value as NodeFile;
  const worker = node.workers?.[0] ?? {};
  issues.push(...oneWorker(node));
  const settings = merge(node.global ?? {}, worker as Mapping);
  for (const key of ["name", "gpu", "host", "port"]) delete settings[key];
  for (const derived of derivedSettings(node)) setAt(settings, derived.path, derived.value);
  makePathsAbsolute(settings, dirname(resolve(path)));
  return { name: worker.name, settings };
}

function oneWorker(node: NodeFile): Issue[] {
  const issues: Issue[] = [];
  if (node.workers && node.workers.length !== 1) {
    issues.push({ path: "workers", expected: `one worker: ${SUPERVISOR}`, received: `${node.workers.length} workers` });
  }
  const { gpus } = node;
  const devices = Array.isArray(gpus) ? gpus.length : typeof gpus === "number" ? gpus : 1;
  if (devices > 1) {
    issues.push({ path: "gpus", expected: `one device: ${SUPERVISOR}`, received: show(gpus) });
  } else if (Array.isArray(gpus) && typeof gpus[0] === "string") {
    const expected = "an ordinal: select a device by its UUID with CUDA_VISIBLE_DEVICES";
    issues.push({ path: "gpus[0]", expected, received: show(gpus[0]) });
  }
  return issues;
}

/** What the node's own keys say about its worker; the worker's own entry comes last and wins. */
function derivedSettings(node: NodeFile): Override[] {
  const worker = node.workers?.[0];
  const single = Array.isArray(node.gpus) ? node.gpus[0] : undefined;
  const derived: [string, unknown][] = [
    ["model_dirs", node.model_repo === undefined || node.global?.model_dirs ? undefined : [node.model_repo]],
    ["endpoints.port", node.base_port],
    ["endpoints.metrics_port", node.metrics_base_port],
    ["endpoints.port", worker?.port ?? worker?.endpoints?.port],
    ["endpoints.metrics_port", worker?.endpoints?.metrics_port],
    ["endpoints.host", worker?.host],
    ["runtime.device_ordinal", worker?.gpu ?? worker?.runtime?.device_ordinal ?? single],
    ["model_dirs", worker?.model_dirs],
  ];
  return derived.flatMap(([path, value]) => (value === undefined ? [] : [{ path: path.split("."), value }]));
}

function makePathsAbsolute(settings: Mapping, directory: string): void {
  const runtime = settings.runtime as Mapping | undefined;
  const tls = (settings.endpoints as Mapping | undefined)?.tls as Mapping | undefined;
  if (settings.model_dirs)
    settings.model_dirs = (settings.model_dirs as string[]).map((each) => absolutePath(directory, each));
  if (settings.cache_dir) settings.cache_dir = absolutePath(directory, settings.cache_dir as string);
  if (runtime?.plugin) runtime.plugin = absolutePath(directory, runtime.plugin as string);
  for (const [key, file] of Object.entries(tls ?? {})) if (file) tls![key] = absolutePath(directory, file as string);
}

function isMapping(value: unknown): value is Mapping {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A deep copy of `base` with `over` laid over it; lists are replaced, not joined. */
export function merge(base: Mapping, over: Mapping): Mapping {
  const merged: Mapping = structuredClone(base);
  for (const [key, value] of Object.entries(over)) {
    const below = merged[key];
    merged[key] = isMapping(below) && isMapping(value) ? merge(below, value) : structuredClone(value);
  }
  return merged;
}

/** Sets a value at a path, making the mappings on the way. */
export function setAt(settings: Mapping, path: readonly string[], value: unknown): void {
  const last = path.at(-1)!;
  let at = settings;
  for (const step of path.slice(0, -1)) {
    if (!isMapping(at[step])) at[step] = {};
    at = at[step] as Mapping;
  }
  at[last] = value;
}

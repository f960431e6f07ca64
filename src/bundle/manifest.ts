// manifest.yaml to a Manifest: every key of formats 3.0 and 2.0, all issues at once.
//
// 3.0 writes shapes in wire order and refuses unknown keys; 2.0 writes them in reverse and ignores what it doesn't know.
// What a rule refused is left at its default, so that the rest can still be judged. Called by load.ts.

import type { Issue } from "../base/errors.ts";
import {
  COMPILED_BATCH_SIZE_MAX,
  HOOK_TIME_LIMIT_MS_DEFAULT,
  HOOK_TIME_LIMIT_MS_MAX,
  MAX_QUEUE_DELAY_US_MAX,
  PRIORITY_LEVELS_MAX,
} from "../base/limits.ts";
import { parseYaml } from "../base/yaml.ts";
import type { Signature } from "../tensor/signature.ts";
import type { Bundle, Variant } from "./bundle.ts";
import { Field, show } from "./fields.ts";
import { type Audience, checkBatchAxes, readTensorList } from "./tensor-list.ts";
import { readVariants } from "./variants.ts";

/** What the manifest says; the rest of a Bundle comes from the files beside it. */
export interface Manifest {
  readonly formatVersion: Bundle["formatVersion"];
  readonly name: string;
  readonly description: string;
  readonly executable: Signature;
  readonly client: Signature;
  /** Empty when input_shapes, or what it rests on, has issues. */
  readonly variants: readonly Variant[];
  /** Ascending, each once. */
  readonly declaredBatchSizes: readonly number[];
  readonly maxQueueDelayUs: number;
  readonly priorityLevels: number;
  readonly warmup: boolean;
  readonly compileOptions: Bundle["compileOptions"];
  readonly hookTimeLimitMs: number;
  readonly provenance: Readonly<Record<string, unknown>>;
  readonly weights: WeightsEntry;
  readonly warnings: readonly string[];
}

export interface WeightsEntry {
  /** Path below the bundle's directory; undefined for a model without weights. */
  readonly file: string | undefined;
  /** Names in argument order; undefined: as the file's metadata says. */
  readonly arguments: readonly string[] | undefined;
}

/** Which hook files stand beside the manifest: model.ts, and the reference system's model.jl. */
export interface HookFiles {
  readonly typescript: boolean;
  readonly julia: boolean;
}

const KEYS_2 = [
  "format_version",
  "name",
  "description",
  "kind",
  "executable_inputs",
  "executable_outputs",
  "client_inputs",
  "client_outputs",
  "batching",
  "input_shapes",
  "meta",
  "provenance",
];
const KEYS_3_ONLY = ["weights", "warmup", "compile_options", "hooks"];
const BATCHING_KEYS_3_ONLY = ["max_queue_delay_us", "priority_levels"];
const VERSIONS: Readonly<Record<string, Bundle["formatVersion"]>> = { 2: "2.0", "2.0": "2.0", 3: "3.0", "3.0": "3.0" };

/** Parses a manifest's text. undefined where nothing beyond the issues can be said: no YAML, no known format. */
export function parseManifest(text: string, hooks: HookFiles, issues: Issue[]): Manifest | undefined {
  const yaml = parseYaml(text);
  issues.push(...yaml.issues);
  if (yaml.issues.length > 0) return undefined;
  const root = new Field(yaml.value, "", issues);
  if (!root.mapping('a mapping of keys, as in format_version: "3.0"')) return undefined;
  const formatVersion = readVersion(root.get("format_version"));
  if (!formatVersion || !readKind(root.get("kind"))) return undefined;
  if (hooks.julia && !hooks.typescript) {
    new Field("model.jl", "model.ts", issues).refuse(
      "the hooks of model.jl ported to TypeScript (import registerModel from 'xlaserver')",
      "only model.jl",
    );
  }
  return readManifest(root, formatVersion, hooks, issues);
}

function readVersion(field: Field): Bundle["formatVersion"] | undefined {
  const { value } = field;
  const text = typeof value === "number" || typeof value === "string" ? String(value) : "";
  return Object.hasOwn(VERSIONS, text) ? VERSIONS[text] : field.refuse('"3.0" or "2.0"');
}

/** True for a model. Meta models have other rules, so nothing else of theirs is judged. */
function readKind(field: Field): boolean {
  if (!field.present || field.value === "model") return true;
  const meta = field.value === "meta";
  field.refuse(meta ? "'model': meta models are not supported yet" : "'model'");
  return false;
}

function readManifest(
  root: Field,
  formatVersion: Bundle["formatVersion"],
  hooks: HookFiles,
  issues: readonly Issue[],
): Manifest {
  const native = formatVersion === "3.0";
  // A key of 3.0 in a 2.0 manifest is ignored, as all unknown keys are there; an absent field gives its default.
  const key = (name: string) => (native ? root.get(name) : new Field(undefined, name, []));
  if (native) root.onlyKeys([...KEYS_2, ...KEYS_3_ONLY]);
  if (native && root.get("meta").present) root.get("meta").refuse("no such key, as it belongs to meta models");

  const signatures = readSignatures(root, native, hooks);
  const inputsField = root.get("executable_inputs");
  const sound = !issues.some(({ path }) => path.startsWith(inputsField.path));
  const variants = sound ? readVariants(root.get("input_shapes"), signatures.executable.inputs) : undefined;
  if (sound) checkBatchAxes(inputsField, signatures.executable.inputs);

  const batching = root.get("batching");
  if (batching.present) batching.mapping("a mapping, e.g. {compiled_batch_sizes: [1, 8]}");
  if (native) batching.onlyKeys(["compiled_batch_sizes", ...BATCHING_KEYS_3_ONLY]);
  return {
    formatVersion,
    name: optional(root.get("name"), "", (field) => field.string("a string")),
    description: readDescription(root.get("description")),
    ...signatures,
    variants: variants ?? [],
    declaredBatchSizes: readBatchSizes(batching.get("compiled_batch_sizes")),
    ...readQueueing(native ? batching : key("batching")),
    warmup: optional(key("warmup"), true, (field) => field.boolean()),
    compileOptions: readCompileOptions(key("compile_options")),
    hookTimeLimitMs: readHookSettings(key("hooks"), hooks),
    provenance: optional(root.get("provenance"), {}, (field) => field.mapping("a mapping")),
    weights: native ? readWeightsEntry(root.get("weights")) : { file: "weights.safetensors", arguments: undefined },
    warnings: native ? [] : ignoredKeys(root),
  };
}

/** The value of a field that may be absent; the default too where it was refused. */
function optional<T>(field: Field, defaultValue: T, read: (field: Field) => T | undefined): T {
  return field.present ? (read(field) ?? defaultValue) : defaultValue;
}

function ignoredKeys(root: Field): string[] {
  const batching = root.get("batching");
  const fields = [...KEYS_3_ONLY.map((key) => root.get(key)), ...BATCHING_KEYS_3_ONLY.map((key) => batching.get(key))];
  const ignored = fields.filter(({ present }) => present);
  return ignored.map(({ path }) => `'${path}' is a key of format 3.0 and has no effect in a 2.0 manifest`);
}

function readDescription({ present, value }: Field): string {
  if (!present) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

function readSignatures(root: Field, native: boolean, hooks: HookFiles): Pick<Manifest, "executable" | "client"> {
  const read = (key: string, audience: Audience) => readTensorList(root.get(key), { audience, reversed: !native });
  const ofClient = (key: string) => {
    const field = root.get(key);
    if (!field.present) return undefined;
    if (!hooks.typescript) field.refuse("no such list, as without model.ts clients see the executable's tensors");
    const list = read(key, "client");
    if (Array.isArray(field.value) && field.value.length === 0) field.refuse("at least one tensor");
    return list;
  };
  const clientInputs = ofClient("client_inputs");
  const clientOutputs = ofClient("client_outputs");
  const inputs = read("executable_inputs", clientInputs ? "executable" : "both");
  const outputs = read("executable_outputs", clientOutputs ? "executable" : "both");
  const outputsField = root.get("executable_outputs");
  if (Array.isArray(outputsField.value) && outputsField.value.length === 0) outputsField.refuse("at least one tensor");
  const executable: Signature = { inputs, outputs };
  if (!clientInputs && !clientOutputs) return { executable, client: executable };
  return { executable, client: { inputs: clientInputs ?? inputs, outputs: clientOutputs ?? outputs } };
}

function readBatchSizes(field: Field): number[] {
  if (!field.present) return [];
  const items = field.list("a list of batch sizes, e.g. [1, 4, 16]") ?? [];
  const sizes = items.flatMap((item) => item.integer(1, COMPILED_BATCH_SIZE_MAX) ?? []);
  return [...new Set(sizes)].sort((a, b) => a - b);
}

function readQueueing(batching: Field): Pick<Manifest, "maxQueueDelayUs" | "priorityLevels"> {
  const read = (key: string, min: number, max: number) =>
    optional(batching.get(key), min, (field) => field.integer(min, max));
  return {
    maxQueueDelayUs: read("max_queue_delay_us", 0, MAX_QUEUE_DELAY_US_MAX),
    priorityLevels: read("priority_levels", 1, PRIORITY_LEVELS_MAX),
  };
}

function readCompileOptions(field: Field): Bundle["compileOptions"] {
  const mapping = optional(field, {}, (present) => present.mapping("a mapping of XLA flags to their values"));
  const options: Record<string, string | number | boolean> = {};
  for (const [flag, value] of Object.entries(mapping)) {
    const item = field.get(flag);
    if (!/^[a-z][a-z0-9_]*$/.test(flag)) {
      item.refuse("an XLA flag without dashes, e.g. xla_cpu_use_onednn", `'${flag}'`);
    } else if (typeof value === "string" || typeof value === "boolean" || Number.isFinite(value)) {
      options[flag] = value as string | number | boolean;
    } else item.refuse("true, false, a number or a string");
  }
  return options;
}

function readHookSettings(field: Field, hooks: HookFiles): number {
  if (!field.present) return HOOK_TIME_LIMIT_MS_DEFAULT;
  if (!hooks.typescript) field.refuse("no such key without model.ts", show(field.value));
  field.mapping("a mapping, e.g. {time_limit_ms: 10000}");
  field.onlyKeys(["time_limit_ms"]);
  return optional(field.get("time_limit_ms"), HOOK_TIME_LIMIT_MS_DEFAULT, (limit) =>
    limit.integer(1, HOOK_TIME_LIMIT_MS_MAX),
  );
}

function readWeightsEntry(field: Field): WeightsEntry {
  const none = { file: undefined, arguments: undefined };
  if (!field.present || !field.mapping("a mapping, e.g. {file: weights.safetensors}")) return none;
  field.onlyKeys(["file", "arguments"]);
  const names = field.get("arguments");
  const items = names.present ? names.list("a list of tensor names in argument order") : undefined;
  const listed = items?.flatMap((item) => item.string("a tensor's name") ?? []);
  const fileField = field.get("file");
  if (!fileField.present) {
    if (listed?.length) fileField.refuse("the safetensors file that holds the arguments");
    return none;
  }
  return { file: readPathInside(fileField), arguments: listed };
}

/**
 * A path that stays inside the bundle as it is written. Symbolic links are followed wherever they lead: who deploys a
 * directory makes them (model caches, mounted volumes and content-addressed stores consist of them), not the manifest.
 */
function readPathInside(field: Field): string | undefined {
  const expected = "a relative path inside the bundle, without '..'";
  const path = field.string(expected);
  if (path === undefined) return undefined;
  const inside = path.split("/").every((part) => part !== "" && part !== "..");
  return inside && !/[\\\0]/.test(path) ? path : field.refuse(expected);
}

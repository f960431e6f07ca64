// Every key of the node file: its name, type, default, bounds and meaning, said once.
//
// These schemas are the only source: parsing, environment overrides, error messages, the JSON Schema and the table in
// docs/node-file.md all derive from them. A key of the reference system that is gone, or whose feature this version
// lacks, stays here as `absent`, so that its user is told instead of ignored. Used inside config/ only.

import * as v from "valibot";
import { MESSAGE_BYTES_MAX, STREAMS_PER_CONNECTION_MAX } from "../base/limits.ts";
import { LOG_FORMATS, LOG_LEVELS } from "../base/log.ts";
import { REQUEST_LOGS } from "../base/request-log.ts";

const MIB = 1 << 20;

/** A key with a default. */
function key<const TSchema extends v.GenericSchema, const TDefault extends v.InferInput<TSchema>>(
  schema: TSchema,
  fallback: TDefault,
  description: string,
) {
  return v.optional(v.pipe(schema, v.description(description)), fallback as v.InferInput<TSchema>);
}

/** A key that may be left out and has no default. */
function optionalKey<const TSchema extends v.GenericSchema>(schema: TSchema, description: string) {
  return v.optional(v.pipe(schema, v.description(description)));
}

/** A group of keys; left out, all its keys take their defaults. */
function group<const TEntries extends v.ObjectEntries>(entries: TEntries, description: string) {
  const schema = v.pipe(v.object(entries), v.description(description));
  // Every key of a group has a default or may be left out, which the type of a generic object can't show.
  return v.optional(schema, {} as unknown as v.InferInput<typeof schema>);
}

/** A key that is refused, with the reason. */
function absent(reason: string) {
  return v.optional(v.pipe(v.never(), v.description(reason)));
}

const removed = (hint: string) => absent(`no such key (removed: ${hint})`);
const later = (feature: string) => absent(`no such key (not in this version: ${feature})`);

/** Values that other versions know; they are named in the error. */
function only<const TValues extends readonly string[]>(values: TValues, note: string) {
  return v.pipe(v.picklist(values), v.metadata({ note }));
}

const integer = (min: number, max: number = Number.MAX_SAFE_INTEGER) =>
  v.pipe(v.number(), v.integer(), v.minValue(min), v.maxValue(max));
const name = v.pipe(v.string(), v.nonEmpty());
const names = v.array(name);
const port = integer(0, 65_535);
const messageBytes = integer(1, 2 ** 31 - 1);

const runtime = group(
  {
    backend: key(v.picklist(["cpu", "cuda", "gpu"]), "cpu", "Platform that executes the models; `gpu` means `cuda`."),
    device_ordinal: key(integer(0, 1023), 0, "Which of the visible devices."),
    plugin: key(
      v.string(),
      "",
      "Path of a PJRT plugin. Empty: the embedded plugin on cpu, the installed Python packages' one on cuda.",
    ),
    allow_cpu_fallback: key(
      v.boolean(),
      true,
      "When the accelerator can't be initialised: serve on the CPU, with a warning, instead of exiting.",
    ),
    mem_fraction: key(
      v.pipe(v.number(), v.gtValue(0), v.maxValue(1)),
      0.9,
      "Share of the accelerator's memory that the allocator may take. Unused on cpu.",
    ),
    preallocate: key(v.boolean(), true, "Take that share at start instead of as needed. Unused on cpu."),
    allocator: key(
      v.picklist(["default", "platform", "bfc", "cuda_async"]),
      "default",
      "The plugin's device allocator. Unused on cpu.",
    ),
    xla_options: key(
      v.record(v.string(), v.union([v.string(), v.boolean(), v.number()])),
      {},
      "XLA flags for every compilation; a manifest's `compile_options` win over them. Set them here: the variable XLA_FLAGS is ignored.",
    ),
    numerics: later("a choice of numerics"),
    autotune: later("switching autotuning off"),
    autotune_cache: later("an autotuning cache"),
    autotune_cache_dir: later("an autotuning cache"),
    device_memory_bytes: later("a budget for weights on demand"),
    weight_cache_fraction: later("weights on demand"),
    weight_cache_wiggle: later("weights on demand"),
    shared_host_weights: later("sharing host weights between workers"),
    residency_mode: removed("every model's weights stay on the device"),
  },
  "The device and its compiler.",
);

const fairOnly = "it belongs to a priority formula that favours models whose batches are expensive";

const modelPolicy = v.object({
  max_batch_size: optionalKey(integer(1), "Rows in one execution at most, whatever sizes are compiled."),
  max_queue_delay_us: optionalKey(
    integer(0, 60_000_000),
    "Microseconds that a request may wait for others to fill its batch; wins over the manifest.",
  ),
  weight: later("the fair discipline"),
  residency: later("weights on demand"),
  pin_to_gpu: later("weights on demand"),
});

const scheduler = group(
  {
    discipline: key(
      only(["fifo"], "not in this version: fair, edf"),
      "fifo",
      "Which model runs next: the one with the oldest waiting request.",
    ),
    max_queue_depth: key(integer(1), 16_384, "Requests that may wait for one model; more are refused."),
    cost_ema_alpha: key(
      v.pipe(v.number(), v.gtValue(0), v.maxValue(1)),
      0.2,
      "How much the newest measurement counts in the estimated cost of a batch.",
    ),
    models: key(v.record(v.string(), modelPolicy), {}, "Settings of single models, by name."),
    idle_credit_ms: later("the fair discipline"),
    ema_halflife_seconds: removed(fairOnly),
    recency_penalty_cap: removed(fairOnly),
    coalescing_discount: removed(fairOnly),
    dispatch_timeout_seconds: removed("it never had an effect; deadlines come with each request"),
    compaction_interval: later("compaction of device memory"),
  },
  "Queues and batches.",
);

const tls = group(
  {
    certificate: key(v.string(), "", "PEM file of the server's certificate, and those that lead to its root after it."),
    key: key(v.string(), "", "PEM file of the certificate's private key, unencrypted."),
    client_ca: key(
      v.string(),
      "",
      "PEM file of the authorities whose client certificates are accepted. Empty: clients need none.",
    ),
  },
  "TLS of the gRPC port; without a certificate it speaks plain text.",
);

const endpoints = group(
  {
    host: key(
      name,
      "127.0.0.1",
      "Address to listen on. 0.0.0.0 opens the server to the network: it has no authentication.",
    ),
    port: key(port, 8001, "gRPC port; 0 takes a free one, which the log names."),
    metrics_port: key(
      v.union([v.literal("off"), port]),
      8002,
      "Port of /metrics, /healthz and /readyz; 0 takes a free one.",
    ),
    max_inflight_bytes: key(
      integer(MIB),
      1024 * MIB,
      "Bytes of inference requests and unread replies that the server may hold at once; more are refused with RESOURCE_EXHAUSTED. The transport bounds what it receives, and what waits to be sent, by the same number each.",
    ),
    tls,
    max_concurrent_requests: removed("admission is bounded by bytes, see endpoints.max_inflight_bytes"),
    rest_port: later("the REST endpoint"),
  },
  "Where the server listens, and how much it admits.",
);

const grpc = group(
  {
    max_recv_msg_bytes: key(messageBytes, MESSAGE_BYTES_MAX, "Largest request message."),
    max_send_msg_bytes: key(messageBytes, MESSAGE_BYTES_MAX, "Largest response message."),
    max_concurrent_streams: key(
      integer(1, 1_000_000),
      STREAMS_PER_CONNECTION_MAX,
      "Calls in flight on one connection.",
    ),
    response_compression: key(
      v.picklist(["none", "gzip"]),
      "none",
      "Compress replies of 1 KiB and more to clients that accept it. Tensors rarely compress; requests may be compressed in any case.",
    ),
  },
  "Bounds of the gRPC transport.",
);

const hooks = group(
  {
    threads: key(
      v.union([v.literal("auto"), integer(1, 256)]),
      "auto",
      "Threads that run the bundles' model.ts, each one hook at a time. `auto`: one per CPU core, 16 at most.",
    ),
    memory_bound_bytes: key(
      integer(64 * MIB),
      2048 * MIB,
      "By how much the process's memory may grow while a hook runs; one that drives it further is ended.",
    ),
  },
  "Pre- and postprocessing.",
);

const logging = group(
  {
    level: key(v.picklist(LOG_LEVELS), "info", "Events below this level are dropped."),
    format: key(v.picklist(LOG_FORMATS), "auto", "`auto`: text on a terminal, otherwise JSON, one object a line."),
    requests: key(v.picklist(REQUEST_LOGS), "off", "One line for no, each failed, or every request."),
  },
  "What is written to standard error.",
);

const workerEntries = {
  model_dirs: key(names, [], "Directories of bundles, searched in order; by default the node's `model_repo` alone."),
  models_include: key(names, [], "Serve only these bundles; empty means all."),
  model_control_mode: key(
    only(["static"], "not in this version: dynamic, explicit"),
    "static",
    "How the set of models changes: it is fixed at start.",
  ),
  model_poll_seconds: later("a watched model directory"),
  cache_dir: key(
    v.string(),
    "",
    "Compiled executables, weights images and the unpacked plugin. Empty: xlaserver in the user's cache directory.",
  ),
  strict: key(v.boolean(), false, "Exit with code 1 when any bundle can't be served, for CI."),
  drain_seconds: key(
    v.pipe(v.number(), v.minValue(0), v.maxValue(3600)),
    10,
    "How long the first SIGTERM or SIGINT lets requests in flight finish; a second signal exits at once.",
  ),
  runtime,
  scheduler,
  endpoints,
  grpc,
  hooks,
  logging,
  batch_policy: removed("sizes come from the bundle; see scheduler.models.<model>.max_batch_size"),
};

/** One worker's settings, as they stand under `global`. */
export const workerSchema = v.object(workerEntries);

/** One entry of `workers`. */
const workerListEntry = v.object({
  name: optionalKey(name, "The worker's name in logs and metrics."),
  gpu: optionalKey(integer(0, 1023), "Sets runtime.device_ordinal."),
  host: optionalKey(name, "Sets endpoints.host."),
  port: optionalKey(integer(0, 65_535), "Sets endpoints.port."),
  ...workerEntries,
});

/** The node file as a whole. */
export const nodeSchema = v.object({
  model_repo: optionalKey(
    name,
    "Directory of bundles, one subdirectory each. A relative path starts at the node file's directory, `~/` at the home directory, as in every path. Required unless model_dirs says more.",
  ),
  base_port: optionalKey(integer(0, 65_535), "gRPC port of the first worker; wins over global.endpoints.port."),
  metrics_base_port: optionalKey(
    v.union([v.literal("off"), port]),
    "Metrics port of the first worker; wins over global.endpoints.metrics_port.",
  ),
  gpus: optionalKey(
    v.union([v.literal("auto"), integer(0), v.array(v.union([integer(0, 1023), name]))]),
    "The node's devices: `auto`, a count, or a list of ordinals. A list of one sets runtime.device_ordinal.",
  ),
  global: v.optional(v.pipe(workerSchema, v.description("Settings of every worker."))),
  workers: optionalKey(
    v.array(workerListEntry),
    "The workers, each with settings that win over `global`. This version runs exactly one.",
  ),
  models: later("placing models on workers"),
  shared_host_weights: later("sharing host weights between workers"),
  role: later("the supervisor"),
});

// From node file, environment and flags to Config: defaults, precedence, and golden files of what is wrong.

import { expect, test } from "bun:test";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { messageOf } from "../base/errors.ts";
import { inNodeFileKeys } from "./config.ts";
import { ConfigError } from "./findings.ts";
import { type ConfigSources, resolveConfig } from "./load.ts";
import type { TextSetting } from "./overrides.ts";
import { defaultCacheDirectory } from "./paths.ts";

const FILE = join(tmpdir(), "node.yaml");

function load(text: string, sources: Partial<ConfigSources> = {}) {
  return resolveConfig({ file: FILE, environment: {}, ...sources }, text).config;
}

test("the smallest node file takes every default", () => {
  const config = load("model_repo: .");
  expect(config).toMatchObject({
    name: "worker0",
    modelDirs: [tmpdir()],
    modelsInclude: [],
    modelControlMode: "static",
    strict: false,
    drainSeconds: 10,
    runtime: { backend: "cpu", deviceOrdinal: 0, plugin: "", allowCpuFallback: true, memFraction: 0.9, xlaOptions: {} },
    scheduler: { discipline: "fifo", maxQueueDepth: 16_384, costEmaAlpha: 0.2, models: {} },
    endpoints: { host: "127.0.0.1", port: 8001, metricsPort: 8002, maxInflightBytes: 1 << 30 },
    grpc: { maxRecvMsgBytes: 512 << 20, maxSendMsgBytes: 512 << 20, maxConcurrentStreams: 1000 },
    logging: { level: "info", format: "auto", requests: "off" },
  });
  expect(config.hooks.threads).toBeGreaterThanOrEqual(1);
  expect(config.hooks.threads).toBeLessThanOrEqual(16);
});

test("a Config is frozen all the way down", () => {
  const config = load("{model_repo: ., global: {scheduler: {models: {minilm: {max_batch_size: 8}}}}}");
  expect(() => Object.assign(config.scheduler.models.minilm!, { maxBatchSize: 1 })).toThrow(TypeError);
  expect(() => Object.assign(config.modelDirs, [1])).toThrow(TypeError);
});

test("names of models and XLA flags keep their spelling", () => {
  const config = load(`
model_repo: .
global:
  runtime: {backend: gpu, xla_options: {xla_cpu_use_onednn: true, xla_flag_n: 3}}
  scheduler: {models: {my_model: {max_queue_delay_us: 500}}}`);
  expect(config.runtime.backend).toBe("cuda");
  expect(config.runtime.xlaOptions).toEqual({ xla_cpu_use_onednn: true, xla_flag_n: 3 });
  expect(config.scheduler.models).toEqual({ my_model: { maxQueueDelayUs: 500 } });
});

test("precedence: flags, variables, the worker's entry, the node's ports, global, defaults", () => {
  const text = `
model_repo: .
base_port: 9000
metrics_base_port: 9100
gpus: [2]
global: {endpoints: {port: 7000, metrics_port: off, host: 0.0.0.0}, drain_seconds: 3, grpc: {max_recv_msg_bytes: 5}}
workers: [{name: left, port: 9001, drain_seconds: 4, logging: {level: warn}}]`;
  const flags: TextSetting[] = [{ label: "--metrics-port", path: ["endpoints", "metrics_port"], text: "0" }];
  const environment = {
    XLASERVER_DRAIN_SECONDS: "5",
    XLASERVER_LOGGING_LEVEL: "error",
    XLASERVER_ENDPOINTS_METRICS_PORT: "1",
  };
  const base = load(text);
  expect(base).toMatchObject({
    name: "left",
    drainSeconds: 4,
    endpoints: { port: 9001, metricsPort: 9100, host: "0.0.0.0" },
    runtime: { deviceOrdinal: 2 },
    logging: { level: "warn", format: "auto" },
    grpc: { maxRecvMsgBytes: 5 },
  });
  const overridden = load(text, { environment, flags });
  expect(overridden).toMatchObject({ drainSeconds: 5, endpoints: { metricsPort: 0 }, logging: { level: "error" } });
});

test("without a file, variables and flags say it all; relative paths start where the command runs", () => {
  const flags: TextSetting[] = [{ label: "--model-repository", path: ["model_dirs"], text: "src:tests" }];
  const { config } = resolveConfig(
    {
      environment: { XLASERVER_STRICT: "yes", XLASERVER_WORKER_NAME: "w7", XLASERVER_GRPC_MAX_RECV_MSG_BYTES: "" },
      flags,
    },
    undefined,
  );
  expect(config).toMatchObject({
    name: "w7",
    strict: true,
    modelDirs: [join(process.cwd(), "src"), join(process.cwd(), "tests")],
  });
});

test("a leading ~ is the home directory, in the file, variables and flags", () => {
  const text = "{model_repo: '~', global: {cache_dir: ~/c, runtime: {plugin: ~/p.so}}}";
  expect(load(text)).toMatchObject({
    modelDirs: [homedir()],
    cacheDir: join(homedir(), "c"),
    runtime: { plugin: join(homedir(), "p.so") },
  });
  const flags: TextSetting[] = [{ label: "--model-repository", path: ["model_dirs"], text: ["~"] }];
  const environment = { XLASERVER_CACHE_DIR: "~/d" };
  expect(load(text, { environment, flags })).toMatchObject({ modelDirs: [homedir()], cacheDir: join(homedir(), "d") });
});

test("an issue of the whole is told to whoever set the key", () => {
  const flags: TextSetting[] = [{ label: "--model-repository", path: ["model_dirs"], text: ["/no/such"] }];
  const message = "command line: --model-repository: expected an existing directory, received /no/such";
  expect(() => load("model_repo: .", { flags })).toThrow(message);
  const environment = { XLASERVER_ENDPOINTS_METRICS_PORT: "8001" };
  expect(() => load("model_repo: .", { environment })).toThrow(
    "environment: XLASERVER_ENDPOINTS_METRICS_PORT: expected",
  );
});

test("settings are printed in the node file's own keys, names of models untouched", () => {
  const config = load(
    "{model_repo: ., metrics_base_port: off, global: {scheduler: {models: {aB_c: {max_batch_size: 8}}}}}",
  );
  expect(inNodeFileKeys(config)).toMatchObject({
    name: "worker0",
    model_dirs: [tmpdir()],
    endpoints: { metrics_port: "off", max_inflight_bytes: 1 << 30 },
    scheduler: { models: { aB_c: { max_batch_size: 8 } } },
  });
});

test("the cache lies in the user's cache directory", () => {
  expect(defaultCacheDirectory({ XDG_CACHE_HOME: "/var/cache" })).toBe("/var/cache/xlaserver");
  expect(load("model_repo: .", { environment: { XDG_CACHE_HOME: "/x" } }).cacheDir).toBe("/x/xlaserver");
  expect(load("{model_repo: ., global: {cache_dir: c}}").cacheDir).toBe(join(tmpdir(), "c"));
});

test("a variable that looks like a misspelt setting is a warning; what Kubernetes adds is none", () => {
  const environment = {
    XLASERVER_ENDPOINT_PORT: "1",
    XLASERVER_SERVICE_HOST: "10.0.0.1",
    XLASERVER_PORT_8001_TCP: "tcp://",
  };
  const { warnings } = resolveConfig({ file: FILE, environment }, "model_repo: .");
  expect(warnings).toEqual(["XLASERVER_ENDPOINT_PORT is not a setting; did you mean XLASERVER_ENDPOINTS_PORT?"]);
});

// A golden file: the node file, then `---- environment` with NAME=value lines if any, then `---- expected`.
// UPDATE_GOLDEN=1 writes the expected part anew.
const GOLDEN = join(import.meta.dir, "../../tests/golden/config");

test.each(readdirSync(GOLDEN))("golden %s", (name) => {
  const golden = readFileSync(join(GOLDEN, name), "utf8");
  const [input = "", expected = ""] = golden.split("---- expected\n");
  const [text = "", variables = ""] = input.split("---- environment\n");
  const environment = Object.fromEntries(
    variables
      .trim()
      .split("\n")
      .map((line) => line.split("=", 2) as [string, string]),
  );
  let received = "";
  try {
    load(text, { environment });
  } catch (thrown) {
    expect(thrown).toBeInstanceOf(ConfigError);
    received = `${messageOf(thrown).replaceAll(tmpdir(), "<directory>")}\n`;
  }
  if (process.env.UPDATE_GOLDEN) writeFileSync(join(GOLDEN, name), `${input}---- expected\n${received}`);
  else expect(received).toBe(expected);
});

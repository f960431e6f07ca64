// `xlaserver serve`, and what a command line without a command means: one worker, until a signal ends it.
//
// Settings come from a node file or from flags in Triton's spelling; both are turned into one Config here, and the
// worker does the rest. A wrong setting exits with 2 before anything is opened.

import { configureLog, log } from "../base/log.ts";
import type { TextSetting } from "../config/overrides.ts";
import { type Arguments, type Command, UsageError } from "./arguments.ts";
import { nodeFileVariable, readConfig, repositoryVariable } from "./settings.ts";

/** Flags that set one key each, by name. */
const SETTING_FLAGS = {
  "grpc-port": { path: "endpoints.port", value: "PORT", help: "gRPC port, 8001 by default; 0 takes a free one." },
  "grpc-address": { path: "endpoints.host", value: "ADDRESS", help: "Address to listen on, 127.0.0.1 by default." },
  "metrics-port": {
    path: "endpoints.metrics_port",
    value: "PORT",
    help: "Port of /metrics, /healthz and /readyz, 8002 by default; 'off' for none.",
  },
  backend: { path: "runtime.backend", value: "NAME", help: "cpu (default) or cuda." },
  device: { path: "runtime.device_ordinal", value: "N", help: "Which of the visible devices, 0 by default." },
  plugin: { path: "runtime.plugin", value: "FILE", help: "PJRT plugin to use instead of the one found." },
  "cache-dir": { path: "cache_dir", value: "DIR", help: "Where compiled executables and weights images are kept." },
  "request-log": { path: "logging.requests", value: "WHICH", help: "Log requests: off (default), errors or all." },
  "log-format": { path: "logging.format", value: "FORMAT", help: "auto (default), text or json." },
  "exit-timeout-secs": { path: "drain_seconds", value: "SECONDS", help: "How long a drain may take, 10 by default." },
} as const;

const OTHER_FLAGS = {
  config: { value: "FILE", help: "Node file; other flags win over it." },
  "model-repository": { value: "DIR", multiple: true, help: "Directory of bundles; may be given several times." },
  "model-control-mode": {
    value: "MODE",
    help: "Triton's names: none (default); poll and explicit are not in this version.",
  },
  "log-verbose": { value: "LEVEL", help: "0 for normal logs (default), 1 and more for debugging." },
  "allow-metrics": { help: "--allow-metrics=false is --metrics-port off." },
  "allow-http": { help: "Only =false: the REST endpoint is not in this version." },
  "http-port": { value: "PORT", help: "Refused: the REST endpoint is not in this version." },
  strict: { help: "Exit with 1 when any bundle can't be served, for CI." },
  "exit-on-error": { help: "Triton's name for --strict." },
  "strict-readiness": {
    help: "Only =false: the server is ready when every bundle is served or has its reason why not.",
  },
} as const;

export const command: Command = {
  usage: "(--config FILE | --model-repository DIR) [flags]",
  details: `
Flags win over XLASERVER_ variables, and those over the node file. Without --config and --model-repository,
the node file that XLASERVER_NODE_FILE names is read. The first SIGTERM or SIGINT drains, a second one exits at once.`,
  flags: { ...OTHER_FLAGS, ...SETTING_FLAGS },
  async run(args) {
    // Before the server's own modules are loaded: a wrong setting should say so at once.
    const settings = settingsOf(args);
    const { config, warnings } = await readConfig(nodeFile(args), settings);
    const { inNodeFileKeys } = await import("../config/config.ts");
    configureLog({ level: config.logging.level, format: config.logging.format });
    for (const warning of warnings) log.warn("setting ignored", { reason: warning });
    log.info("config", inNodeFileKeys(config));
    const { runWorker } = await import("../worker/worker.ts");
    return runWorker(config);
  },
};

function nodeFile(args: Arguments): string | undefined {
  const file = args.text("config");
  if (file !== undefined || args.given("model-repository")) return file;
  const fromEnvironment = nodeFileVariable();
  if (fromEnvironment === undefined && !repositoryVariable()) {
    throw new UsageError("serve what? Give --config FILE or --model-repository DIR");
  }
  return fromEnvironment;
}

/** The settings that the flags make, labelled by their flag. Errors: UsageError for flags without a meaning here. */
export function settingsOf(args: Arguments): TextSetting[] {
  refuseWhatIsNotThere(args);
  const settings: TextSetting[] = [];
  const set = (flag: string, path: string, text: TextSetting["text"] | undefined) => {
    if (text !== undefined) settings.push({ label: `--${flag}`, path: path.split("."), text });
  };
  for (const [flag, { path }] of Object.entries(SETTING_FLAGS)) set(flag, path, args.text(flag));
  const repositories = args.texts("model-repository");
  if (repositories.length > 0) set("model-repository", "model_dirs", repositories);
  if (args.given("allow-metrics") && !args.has("allow-metrics")) set("allow-metrics", "endpoints.metrics_port", "off");
  for (const flag of ["strict", "exit-on-error"]) set(flag, "strict", args.text(flag));
  const verbose = args.text("log-verbose");
  if (verbose !== undefined) {
    if (!/^\d+$/.test(verbose)) throw new UsageError(`--log-verbose: expected a number, received '${verbose}'`);
    set("log-verbose", "logging.level", Number(verbose) > 0 ? "debug" : "info");
  }
  if (args.given("model-control-mode")) set("model-control-mode", "model_control_mode", "static");
  return settings;
}

function refuseWhatIsNotThere(args: Arguments): void {
  const mode = args.text("model-control-mode") ?? "none";
  if (mode !== "none") {
    throw new UsageError(
      `--model-control-mode: expected none (not in this version: poll, explicit), received '${mode}'`,
    );
  }
  if (args.given("http-port") || args.has("allow-http")) {
    throw new UsageError("the REST endpoint is not in this version: leave out --http-port and --allow-http");
  }
  if (args.has("strict-readiness")) {
    throw new UsageError(
      "--strict-readiness is not in this version: the server is ready when every bundle is served or has its reason why not; --strict exits instead",
    );
  }
}

// The node file, the environment and the command line become one frozen Config, or one error that lists all issues.
//
// Order of precedence: flags, XLASERVER_ variables, the worker's entry, ports of the node, `global`, defaults.
// Called once at start by cli/.

import { availableParallelism } from "node:os";
import { basename } from "node:path";
import * as v from "valibot";
import { type Issue, messageOf } from "../base/errors.ts";
import { isDirectory, readText } from "../base/files.ts";
import { type Config, camelise, deepFreeze } from "./config.ts";
import { ConfigError, throwFindings } from "./findings.ts";
import { jsonSchemaOf } from "./json-schema.ts";
import { merge, readNodeFile, setAt } from "./node-file.ts";
import { environmentSettings, environmentWarnings, parseSettings, type TextSetting } from "./overrides.ts";
import { absolutePath, defaultCacheDirectory } from "./paths.ts";
import { nodeSchema, workerSchema } from "./schema.ts";
import { tlsIssues } from "./tls-files.ts";

type Environment = Readonly<Record<string, string | undefined>>;

export interface ConfigSources {
  /** Path of the node file; undefined when flags say it all. */
  readonly file?: string | undefined;
  readonly environment: Environment;
  /** Settings from the command line, labelled by their flag. */
  readonly flags?: readonly TextSetting[];
}

export interface LoadedConfig {
  readonly config: Config;
  /** What looks like a mistake but is none for certain; for the log. */
  readonly warnings: readonly string[];
}

const NAME_VARIABLE = "XLASERVER_WORKER_NAME";
/** Read elsewhere: by cli/ and by device/. */
const OTHER_VARIABLES = ["XLASERVER_NODE_FILE", "XLASERVER_PJRT_PLUGIN"];
const HOOK_THREADS_MAX = 16;

/** Sources of settings, as messages name them. */
const ENVIRONMENT = "environment";
const COMMAND_LINE = "command line";

/** Errors: ConfigError with every issue of every source, or that the file can't be read. */
export async function loadConfig(sources: ConfigSources): Promise<LoadedConfig> {
  const { file } = sources;
  if (file === undefined) return resolveConfig(sources, undefined);
  const text = await readText(file).catch((thrown) => {
    throw new ConfigError([{ source: "node file", issues: [{ path: "", expected: "", received: messageOf(thrown) }] }]);
  });
  return resolveConfig(sources, text);
}

/** loadConfig, given the node file's text. */
export function resolveConfig(sources: ConfigSources, text: string | undefined): LoadedConfig {
  const { environment, flags = [] } = sources;
  const fileIssues: Issue[] = [];
  const environmentIssues: Issue[] = [];
  const flagIssues: Issue[] = [];
  const json = jsonSchemaOf(workerSchema);

  const worker =
    sources.file === undefined
      ? { name: undefined, settings: {} }
      : readNodeFile(sources.file, text ?? "", jsonSchemaOf(nodeSchema), fileIssues);
  const variables = environmentSettings(json, environment);
  const overrides = [...parseSettings(json, variables, environmentIssues), ...parseSettings(json, flags, flagIssues)];
  const settings = merge(worker.settings, {});
  for (const { path, value } of overrides) setAt(settings, path, value);
  const fileName = sources.file === undefined ? "settings" : basename(sources.file);
  const findings = [
    { source: fileName, issues: fileIssues },
    { source: ENVIRONMENT, issues: environmentIssues },
    { source: COMMAND_LINE, issues: flagIssues },
  ];
  // The whole can only be judged when its parts are sound.
  throwFindings(findings);

  const parsed = camelise(json, v.parse(workerSchema, settings)) as Config;
  const config = finish(parsed, worker.name ?? environment[NAME_VARIABLE], environment);
  throwFindings(
    crossChecks(config).map((issue) => {
      // Whoever set the key hears of it by the name under which it was set.
      const setBy = (settings: readonly TextSetting[]) => settings.find(({ path }) => path.join(".") === issue.path);
      const flag = setBy(flags);
      const variable = setBy(variables);
      if (flag) return { source: COMMAND_LINE, issues: [{ ...issue, path: flag.label }] };
      if (variable) return { source: ENVIRONMENT, issues: [{ ...issue, path: variable.label }] };
      return {
        source: fileName,
        issues: [{ ...issue, path: issue.path === "model_dirs" ? "model_repo" : issue.path }],
      };
    }),
  );
  return {
    config: deepFreeze(config),
    warnings: environmentWarnings(json, environment, [NAME_VARIABLE, ...OTHER_VARIABLES]),
  };
}

/** Fills in what the machine decides: paths, threads, aliases. */
function finish(config: Config, name: string | undefined, environment: Environment): Config {
  const { threads } = config.hooks as { threads: number | "auto" };
  const { plugin, backend } = config.runtime as { plugin: string; backend: string };
  const { certificate, key, clientCa } = config.endpoints.tls;
  const here = process.cwd();
  const fileFrom = (path: string) => (path === "" ? "" : absolutePath(here, path));
  return {
    ...config,
    name: name || "worker0",
    modelDirs: config.modelDirs.map((directory) => absolutePath(here, directory)),
    cacheDir: config.cacheDir === "" ? defaultCacheDirectory(environment) : absolutePath(here, config.cacheDir),
    runtime: {
      ...config.runtime,
      backend: backend === "cpu" ? "cpu" : "cuda",
      plugin: fileFrom(plugin),
    },
    endpoints: {
      ...config.endpoints,
      tls: { certificate: fileFrom(certificate), key: fileFrom(key), clientCa: fileFrom(clientCa) },
    },
    hooks: {
      ...config.hooks,
      threads: threads === "auto" ? Math.min(availableParallelism(), HOOK_THREADS_MAX) : threads,
    },
  };
}

/** Rules that hold between keys, and between keys and the machine; issues name the worker's key. */
function crossChecks(config: Config): Issue[] {
  const { endpoints, grpc, modelDirs } = config;
  const issues: Issue[] = [];
  if (modelDirs.length === 0) {
    issues.push({ path: "model_dirs", expected: "the directory that holds the bundles", received: "nothing" });
  }
  for (const directory of modelDirs) {
    if (isDirectory(directory)) continue;
    issues.push({ path: "model_dirs", expected: "an existing directory", received: directory });
  }
  if (endpoints.port !== 0 && endpoints.port === endpoints.metricsPort) {
    const expected = `a port other than endpoints.port (${endpoints.port})`;
    issues.push({ path: "endpoints.metrics_port", expected, received: String(endpoints.metricsPort) });
  }
  if (endpoints.maxInflightBytes < grpc.maxRecvMsgBytes) {
    const expected = `at least grpc.max_recv_msg_bytes (${grpc.maxRecvMsgBytes}), or the largest message could never be admitted`;
    issues.push({ path: "endpoints.max_inflight_bytes", expected, received: String(endpoints.maxInflightBytes) });
  }
  return [...issues, ...tlsIssues(endpoints.tls)];
}

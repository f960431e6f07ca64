// Plugins are found in their order, refused with one clear line, and extracted whole however often and however badly it starts.

import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sha256 } from "../base/files.ts";
import type { EmbeddedPlugin } from "./embedded-plugin.ts";
import { extractPlugin } from "./extract-plugin.ts";
import { choosePlugin, findPlugins } from "./plugins.ts";
import { sharedObjectFault } from "./shared-object.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "xlaserver-plugins-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

function file(name: string, content: string | Uint8Array = ""): string {
  const path = join(directory, name);
  mkdirSync(join(path, ".."), { recursive: true });
  writeFileSync(path, content);
  return path;
}

/** The head of a shared object for this machine with one segment of `segmentBytes`. */
function sharedObject(segmentBytes: number): Uint8Array {
  const bytes = new Uint8Array(120);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, 0x464c457f, true);
  bytes.set([2, 1], 4);
  view.setUint16(16, 3, true);
  view.setUint16(18, process.arch === "arm64" ? 183 : 62, true);
  view.setBigUint64(32, 64n, true);
  view.setUint16(54, 56, true);
  view.setUint16(56, 1, true);
  view.setBigUint64(64 + 32, BigInt(segmentBytes), true);
  return bytes;
}

describe("sharedObjectFault", () => {
  test.each([
    [
      "a text",
      "hello, I am not a library at all, although I am long enough to be one, am I not?",
      "not a shared library",
    ],
    ["an empty file", "", "not a shared library"],
    ["a truncated library", sharedObject(121), "a truncated shared library"],
    ["a library without its program headers", sharedObject(0).slice(0, 70), "a truncated shared library"],
    ["another machine's library", sharedObject(0).fill(40, 18, 19), "a shared library of another machine"],
    ["an executable", sharedObject(0).fill(2, 16, 17), "an ELF file, but not a shared library"],
  ])("refuses %s", (_, content, reason) => {
    expect(sharedObjectFault(file("plugin.so", content))).toStartWith(reason);
  });

  test("lets a whole library pass, and misses none", () => {
    expect(sharedObjectFault(file("plugin.so", sharedObject(120)))).toBeUndefined();
    expect(sharedObjectFault(join(directory, "none.so"))).toBe("no such file");
  });
});

describe("finding", () => {
  const environment = () => ({ HOME: directory, VIRTUAL_ENV: join(directory, "venv"), PATH: join(directory, "bin") });

  function installPackages(): void {
    const packages = "venv/lib/python3.12/site-packages";
    file(`${packages}/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so`, sharedObject(0));
    file(`${packages}/lammps_jax_pjrt_cpu-0.11.2.dist-info/METADATA`);
    file(`${packages}/jax_plugins/xla_cuda13/xla_cuda_plugin.so`, sharedObject(0));
    file(`${packages}/jax_cuda13_pjrt-0.11.1.dist-info/METADATA`);
    file("lib/python3/dist-packages/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so", sharedObject(0));
    chmodSync(file("bin/python3"), 0o755);
  }

  test("looks at the option, the environment, then the Python packages", () => {
    installPackages();
    const found = findPlugins({
      path: "/given.so",
      environment: { ...environment(), XLASERVER_PJRT_PLUGIN: "/one.so", PJRT_PLUGIN_LIBRARY_PATH: "/two.so" },
      cacheDirectory: directory,
    }).filter(({ origin }) => origin !== "set-up");
    expect(found.map(({ origin, name, version, backend }) => [origin, name, version, backend])).toEqual([
      ["option", undefined, undefined, undefined],
      ["environment", undefined, undefined, undefined],
      ["environment", undefined, undefined, undefined],
      ["python package", "jax_cuda13_pjrt", "0.11.1", "cuda"],
      ["python package", "lammps_jax_pjrt_cpu", "0.11.2", "cpu"],
      ["python package", "xla_cpu_pjrt", undefined, "cpu"],
    ]);
  });

  test("chooses the first of the backend", async () => {
    installPackages();
    const search = { environment: environment(), cacheDirectory: directory };
    expect(await choosePlugin("cuda", search)).toEndWith("xla_cuda13/xla_cuda_plugin.so");
    expect(await choosePlugin("cpu", search)).toEndWith("pjrt_c_api_cpu_plugin.so");
  });

  test("takes a plugin that was asked for, or none", async () => {
    installPackages();
    const path = file("text.so", "no library");
    const search = { path, environment: environment(), cacheDirectory: directory };
    const error = await choosePlugin("cpu", search).catch((thrown) => thrown);
    expect(error.code).toBe("FAILED_PRECONDITION");
    expect(error.message).toContain(`${path} (from option): not a shared library`);
    expect(error.message).not.toContain("\n");
  });

  test("says where to get one when there is none", async () => {
    const search = { environment: { HOME: directory, PATH: "" }, cacheDirectory: directory };
    const error = await choosePlugin("cuda", search).catch((thrown) => thrown);
    expect(error.message).toContain("no PJRT plugin for cuda was found");
    expect(error.message).toContain("jax-cuda13-pjrt");
  });
});

describe("extractPlugin", () => {
  const content = new Uint8Array(3_000_000).map((_, index) => index * 2654435761);

  function embed(): EmbeddedPlugin {
    const compressed = file("plugin.so.zst", Bun.zstdCompressSync(content));
    return { file: compressed, sha256: sha256(content), bytes: content.byteLength, name: "test", version: "1" };
  }

  const extracted = () => readdirSync(join(directory, "cache", "plugins"));

  test("writes the plugin once and finds it again", async () => {
    const plugin = embed();
    const path = await extractPlugin(plugin, join(directory, "cache"));
    expect(new Uint8Array(readFileSync(path))).toEqual(content);
    rmSync(plugin.file);
    expect(await extractPlugin(plugin, join(directory, "cache"))).toBe(path);
  });

  test("extracts anew what is damaged", async () => {
    const plugin = embed();
    const path = await extractPlugin(plugin, join(directory, "cache"));
    for (const damage of [content.slice(0, 1000), content.slice().fill(1, 5, 6)]) {
      writeFileSync(path, damage);
      await extractPlugin(plugin, join(directory, "cache"));
      expect(sha256(readFileSync(path))).toBe(plugin.sha256);
    }
  });

  test("refuses an embedded file that is not what the build put there", async () => {
    const plugin = embed();
    for (const wrong of [
      { ...plugin, sha256: "0".repeat(64) },
      { ...plugin, bytes: 5 },
      { ...plugin, file: file("x") },
    ]) {
      expect(await extractPlugin(wrong, join(directory, "cache")).catch((error) => error.code)).toBe("DATA_LOSS");
    }
    expect(extracted()).toEqual([]);
  });

  test("is safe in two processes at once, and after one that was killed half-way", async () => {
    const plugin = embed();
    const program = file(
      "extract.ts",
      `import { extractPlugin } from ${JSON.stringify(join(import.meta.dir, "extract-plugin.ts"))};
       console.log("started");
       await extractPlugin(JSON.parse(process.argv[2]), process.argv[3]);`,
    );
    const start = () =>
      Bun.spawn([process.execPath, program, JSON.stringify(plugin), join(directory, "cache")], { stdout: "pipe" });
    const killed = start();
    await killed.stdout.getReader().read();
    killed.kill("SIGKILL");
    await killed.exited;
    expect(await Promise.all([start(), start()].map((child) => child.exited))).toEqual([0, 0]);
    const [name] = extracted().filter((entry) => entry.endsWith(".so"));
    expect(sha256(readFileSync(join(directory, "cache", "plugins", name!)))).toBe(plugin.sha256);
  });

  test("clears away what a killed extraction left long ago, and leaves a running one alone", async () => {
    const plugin = embed();
    const [old, recent] = [file("cache/plugins/.tmp-a-1-2", "half"), file("cache/plugins/.tmp-b-1-2", "half")];
    utimesSync(old, 1, 1);
    await extractPlugin(plugin, join(directory, "cache"));
    expect(extracted().filter((entry) => entry.startsWith(".tmp"))).toEqual([
      recent.slice(recent.lastIndexOf("/") + 1),
    ]);
  });
});

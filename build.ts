// `bun build.ts` makes dist/xlaserver: Bun, this program, the compressed CPU plugin and every notice, in one file.
//
// Beside it go SHA256SUMS and THIRD_PARTY_NOTICES. The set-up (setup/) has fetched and unpacked the plugin's wheel, and
// skips this program while nothing has changed. Two modules are replaced on the way in: src/device/embedded-plugin.ts
// and src/cli/embedded-notices.ts, which from source export undefined.

import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { $, type BuildArtifact, type BunPlugin } from "bun";
import { name, version } from "./package.json";

const ROOT = import.meta.dir;
const OUT = join(ROOT, "dist");
const EXECUTABLE = join(OUT, name);
const WORK = join(ROOT, ".deps", "build");

const PLUGIN = {
  name: "lammps-jax-pjrt-cpu",
  version: "0.11.2",
  directory: join(ROOT, ".deps", "plugins", "lammps_jax_pjrt_cpu"),
  file: "pjrt_c_api_cpu_plugin.so",
};

// Level 19 would take a minute and save 5 MB of 49.
const ZSTD_LEVEL = 10;
const EXECUTABLE_BYTES_MAX = 175_000_000;

/**
 * The program's entry, the preload of bundle tests (hooks/bundle-tests.ts takes it out), and the threads, which
 * base/threads.ts starts by their path below src/.
 */
function entrypoints(): string[] {
  const threads = readdirSync(join(ROOT, "src"), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".thread.ts"))
    .sort();
  return ["main.ts", "hooks/preload.ts", ...threads].map((file) => join(ROOT, "src", file));
}

async function commit(): Promise<string> {
  const head = await $`git -C ${ROOT} rev-parse --short=12 HEAD`.quiet().nothrow();
  if (head.exitCode !== 0) return "unknown";
  const changes = await $`git -C ${ROOT} status --porcelain -- src ffi proto build.ts package-lock.json`
    .quiet()
    .nothrow();
  return `${head.text().trim()}${changes.text().trim() === "" ? "" : "+"}`;
}

function sha256(bytes: Uint8Array): string {
  return new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
}

/** Writes a file whole or not at all, since other builds may read it. */
function write(path: string, content: string | Uint8Array): string {
  writeFileSync(`${path}.part`, content);
  renameSync(`${path}.part`, path);
  return path;
}

/** Compresses the plugin, once for each of its contents, and describes it as src/device/embedded-plugin.ts does. */
function embedPlugin() {
  const path = join(PLUGIN.directory, PLUGIN.file);
  if (!existsSync(path)) throw new Error(`${relative(ROOT, path)} is missing: run 'npm run build', which fetches it`);
  const bytes = readFileSync(path);
  const digest = sha256(bytes);
  const file = join(WORK, `${PLUGIN.name}-${digest.slice(0, 16)}-${ZSTD_LEVEL}.so.zst`);
  if (!existsSync(file)) write(file, Bun.zstdCompressSync(bytes, { level: ZSTD_LEVEL }));
  return { file, sha256: digest, bytes: bytes.byteLength, name: PLUGIN.name, version: PLUGIN.version };
}

/** Answers a module's path with other source text. */
function replaceModules(replacements: Readonly<Record<string, string>>): BunPlugin {
  return {
    name: "embed",
    setup(build) {
      build.onLoad({ filter: /\/src\/(device\/embedded-plugin|cli\/embedded-notices)\.ts$/ }, ({ path }) => {
        const contents = replacements[relative(ROOT, path)];
        if (contents === undefined) throw new Error(`no replacement for ${path}`);
        return { contents, loader: "ts" };
      });
    },
  };
}

/** A module that exports an embedded file's path, with more fields beside it, as `constant`. */
function embeddingModule(constant: string, file: string, fields: object): string {
  return `import file from ${JSON.stringify(file)} with { type: "file" };
export const ${constant} = { ...${JSON.stringify(fields)}, file };
`;
}

/** The npm packages whose code goes into the executable: name to directory. */
async function embeddedPackages(): Promise<Map<string, string>> {
  const built = await Bun.build({ entrypoints: entrypoints(), target: "bun", metafile: true });
  const packages = new Map<string, string>();
  for (const input of Object.keys(built.metafile?.inputs ?? {})) {
    const found = /^(.*node_modules\/((?:@[^/]+\/)?[^/]+))\//.exec(input);
    if (found) packages.set(found[2]!, join(ROOT, found[1]!));
  }
  return new Map([...packages].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** A package's licence as it ships it, else as licenses/ holds it. Errors: when there is neither. */
function licenceOf(packageName: string, directory: string): string {
  const shipped = readdirSync(directory).filter((file) => /^(licen[cs]e|notice)/i.test(file));
  const kept = join(ROOT, "licenses", `${packageName.replaceAll("/", "+")}.md`);
  const files = shipped.length > 0 ? shipped.sort().map((file) => join(directory, file)) : [kept];
  if (!existsSync(files[0]!)) throw new Error(`${packageName} ships no licence: put it into ${relative(ROOT, kept)}`);
  return files.map((file) => readFileSync(file, "utf8").trim()).join("\n\n");
}

/** Licence and notices of everything in the executable, this project first. */
function notices(packages: ReadonlyMap<string, string>): string {
  const parts: [title: string, text: string][] = [
    [`${name} ${version} (Apache-2.0)`, readFileSync(join(ROOT, "LICENSE"), "utf8")],
    [`Bun ${Bun.version}`, readFileSync(join(ROOT, "licenses", "bun.md"), "utf8")],
  ];
  for (const [packageName, directory] of packages) {
    const { version, license } = JSON.parse(readFileSync(join(directory, "package.json"), "utf8"));
    parts.push([
      `${packageName} ${version} (${String(license).replace(/^\((.*)\)$/, "$1")})`,
      licenceOf(packageName, directory),
    ]);
  }
  for (const file of ["LICENSE", "THIRD_PARTY_NOTICES"]) {
    const title = `${PLUGIN.name} ${PLUGIN.version}: ${file}`;
    parts.push([title, readFileSync(join(PLUGIN.directory, file), "utf8")]);
  }
  const rule = "=".repeat(80);
  return parts.map(([title, text]) => `${rule}\n${title}\n${rule}\n\n${text.trim()}\n`).join("\n");
}

async function compile(plugin: BunPlugin): Promise<void> {
  const built = await Bun.build({
    entrypoints: entrypoints(),
    root: ROOT,
    target: "bun",
    // Nothing of the directory that it is started in may run in it, or set its environment.
    compile: {
      outfile: `${EXECUTABLE}.part`,
      autoloadBunfig: false,
      autoloadDotenv: false,
      autoloadTsconfig: false,
      autoloadPackageJson: false,
    },
    // Saves 50 ms of each start for 6 MB: nothing is parsed.
    bytecode: true,
    format: "esm",
    // Names stay, so that a stack in the log can be read.
    minify: { whitespace: true, syntax: true, identifiers: false },
    define: { BUILD_COMMIT: JSON.stringify(await commit()), "process.env.NODE_ENV": '"production"' },
    plugins: [plugin],
  });
  if (!built.success) throw new AggregateError(built.logs, "the build failed");
  renameSync(executableOf(built.outputs), EXECUTABLE);
}

function executableOf(outputs: readonly BuildArtifact[]): string {
  const [output] = outputs;
  if (!output) throw new Error("the build wrote nothing");
  return output.path;
}

async function main(): Promise<void> {
  mkdirSync(OUT, { recursive: true });
  mkdirSync(WORK, { recursive: true });
  const text = notices(await embeddedPackages());
  write(join(OUT, "THIRD_PARTY_NOTICES"), text);
  const compressed = write(join(WORK, "notices.txt.zst"), Bun.zstdCompressSync(text, { level: 19 }));
  const { file, ...fields } = embedPlugin();
  await compile(
    replaceModules({
      "src/device/embedded-plugin.ts": embeddingModule("embeddedPlugin", file, fields),
      "src/cli/embedded-notices.ts": embeddingModule("embeddedNotices", compressed, {}),
    }),
  );
  const { size } = statSync(EXECUTABLE);
  if (size > EXECUTABLE_BYTES_MAX)
    throw new Error(`${EXECUTABLE} has ${size} bytes, more than ${EXECUTABLE_BYTES_MAX}`);
  write(join(OUT, "SHA256SUMS"), `${sha256(readFileSync(EXECUTABLE))}  ${name}\n`);
  console.log(`${relative(ROOT, EXECUTABLE)}: ${(size / 1e6).toFixed(1)} MB`);
}

await main();

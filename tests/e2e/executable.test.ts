// The executable where it stands: nothing of the directory that it is started in may run in it.

import { expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const EXECUTABLE = join(import.meta.dir, "..", "..", "dist", "xlaserver");
const built = existsSync(EXECUTABLE);
if (!built) console.log("skipped: dist/xlaserver is not built (npm run build)");

test.skipIf(!built)("a bunfig.toml, an .env or a package.json in the working directory has no effect", async () => {
  const directory = mkdtempSync(join(tmpdir(), "xlaserver-cwd-"));
  try {
    writeFileSync(join(directory, "bunfig.toml"), 'preload = ["./preload.ts"]\n');
    writeFileSync(join(directory, "preload.ts"), 'process.stdout.write("preloaded");\n');
    writeFileSync(join(directory, ".env"), "XLASERVER_LOGGING_LEVEL=bogus\n");
    writeFileSync(join(directory, "package.json"), "{ this is no JSON");
    writeFileSync(join(directory, "node.yaml"), "model_repo: .\n");
    const child = Bun.spawn([EXECUTABLE, "config", "node.yaml"], { cwd: directory, stdout: "pipe", stderr: "pipe" });
    const [output, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    expect([await child.exited, errors]).toEqual([0, ""]);
    expect(output).not.toContain("preloaded");
    expect(output).not.toContain("bogus");
  } finally {
    rmSync(directory, { recursive: true });
  }
});

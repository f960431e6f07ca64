// h2spec (https://github.com/summerwind/h2spec) against our server with its default limits: no failure, none skipped.

import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { startEcho } from "../support/grpc-echo.ts";

const path = `${import.meta.dir}/../../.deps/go/bin/h2spec`;
const h2spec = existsSync(path) ? path : Bun.which("h2spec");
if (!h2spec) {
  console.log("h2spec is neither in .deps/go/bin nor on PATH: skipped");
}

test.skipIf(!h2spec)(
  "h2spec: generic, hpack, http2",
  async () => {
    using echo = startEcho();
    const run = Bun.spawn([h2spec!, "-h", "127.0.0.1", "-p", String(echo.server.port), "generic", "hpack", "http2"], {
      stdout: "pipe",
      stderr: "pipe",
    });
    const output = await new Response(run.stdout).text();
    const summary = /(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed/.exec(output);
    if (summary?.[4] !== "0") console.log(output.slice(output.indexOf("Failures:")));
    expect(await run.exited).toBe(0);
    expect(summary?.slice(1).map(Number)).toEqual([145, 145, 0, 0]);
  },
  120_000,
);

// Every struct layout of ffi/pjrt against the C compiler: the header that the xla-cpu-pjrt wheel carries (API 0.81) is
// compiled, and each offset, each size and the order of the function table are compared with our rows.

import { expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Fields, Layout } from "../../ffi/layout.ts";
import { CALLS } from "../../ffi/pjrt/calls.ts";
import { API_FUNCTIONS } from "../../ffi/pjrt/function-order.ts";
import * as structs from "../../ffi/pjrt/structs.ts";
import { testHeader } from "../support/plugins.ts";

const header = await testHeader();
const compiler = Bun.which("gcc") ?? Bun.which("cc");
const skip = header.skip ?? (compiler ? undefined : "no C compiler (gcc or cc) on PATH");
if (skip) console.log(`pjrt-layout skipped: ${skip}`);

const LAYOUTS = [...Object.values(structs), ...Object.values(CALLS)].filter(
  (value) => typeof value === "object",
) as unknown as Layout<Fields>[];

/** Compiles `body` as a C main with the header included, runs it, and gives its lines. */
async function runC(body: string): Promise<string[]> {
  const folder = await mkdtemp(join(tmpdir(), "pjrt-layout-"));
  try {
    const source = join(folder, "layout.c");
    const program = join(folder, "layout");
    await Bun.write(source, `#include <stdio.h>\n#include "pjrt_c_api.h"\nint main(void) {\n${body}\nreturn 0;\n}\n`);
    const compile = Bun.spawnSync([compiler!, "-std=c11", "-I", dirname(header.path!), "-o", program, source]);
    if (compile.exitCode !== 0) throw new Error(compile.stderr.toString());
    return Bun.spawnSync([program]).stdout.toString().trimEnd().split("\n");
  } finally {
    await rm(folder, { recursive: true });
  }
}

test.skipIf(skip !== undefined)(
  "every field lies where the header puts it, and every size is the header's",
  async () => {
    const ours: string[] = [];
    const prints: string[] = [];
    for (const { name, placements, size } of LAYOUTS) {
      for (const [field, placement] of Object.entries(placements)) {
        ours.push(`${name}.${field} ${placement.offset} ${placement.size}`);
        prints.push(
          `printf("${name}.${field} %zu %zu\\n", offsetof(${name}, ${field}), sizeof(((${name}*)0)->${field}));`,
        );
      }
      // PJRT_Api goes on with the function table, which has a test of its own.
      if (name === "PJRT_Api") continue;
      ours.push(`${name} ${size}`);
      prints.push(`printf("${name} %zu\\n", (size_t)${name}_STRUCT_SIZE);`);
    }
    expect(LAYOUTS.length).toBeGreaterThan(50);
    expect(ours).toEqual(await runC(prints.join("\n")));
  },
);

test.skipIf(skip !== undefined)("array elements stand as far apart as sizeof says", async () => {
  const arrays = LAYOUTS.filter(({ name }) => name !== "PJRT_Api");
  const theirs = await runC(arrays.map(({ name }) => `printf("${name} %zu\\n", sizeof(${name}));`).join("\n"));
  expect(arrays.map(({ name, stride }) => `${name} ${stride}`)).toEqual(theirs);
});

test.skipIf(skip !== undefined)("the function table has the header's order and length", async () => {
  const { offset, size } = structs.ApiHead.placements.pjrt_api_version;
  const ours = API_FUNCTIONS.map((name, index) => `${name} ${offset + size + index * 8}`);
  const prints = API_FUNCTIONS.map((name) => `printf("${name} %zu\\n", offsetof(PJRT_Api, ${name}));`);
  const theirs = await runC([...prints, 'printf("PJRT_Api %zu\\n", (size_t)PJRT_Api_STRUCT_SIZE);'].join("\n"));
  expect([...ours, `PJRT_Api ${structs.ApiHead.stride + API_FUNCTIONS.length * 8}`]).toEqual(theirs);
});

test.skipIf(skip !== undefined)("the header is of the oldest API that we accept", async () => {
  expect(await runC('printf("%d.%d\\n", PJRT_API_MAJOR, PJRT_API_MINOR);')).toEqual([`0.${structs.OLDEST_API_MINOR}`]);
});

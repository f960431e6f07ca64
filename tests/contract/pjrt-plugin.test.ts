// What loads as a PJRT plugin and what does not: real ones of three API versions, and made-up ones compiled against the
// header for versions, tables and errors that no real plugin has.

import { dlopen } from "bun:ffi";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { NULL } from "../../ffi/memory.ts";
import { PjrtApi } from "../../ffi/pjrt/api.ts";
import { PjrtClient } from "../../ffi/pjrt/client.ts";
import { PjrtError } from "../../ffi/pjrt/error.ts";
import { loadPlugin, pluginAttributes, pluginExtensions } from "../../ffi/pjrt/plugin.ts";
import { ServerError } from "../../src/base/errors.ts";
import { TEST_PLUGIN_NAMES, testHeader, testPlugin, testPluginApi } from "../support/plugins.ts";

function failure(action: () => unknown): ServerError {
  try {
    action();
  } catch (thrown) {
    expect(thrown).toBeInstanceOf(ServerError);
    return thrown as ServerError;
  }
  throw new Error("expected a ServerError, nothing was thrown");
}

for (const name of TEST_PLUGIN_NAMES) {
  const plugin = await testPlugin(name);
  if (plugin.skip) console.log(`${name} skipped: ${plugin.skip}`);
  describe.skipIf(plugin.skip !== undefined)(name, () => {
    test("has the version it is known for, attributes and extensions", () => {
      const api = loadPlugin(plugin.path!);
      expect(api.version).toEqual(testPluginApi(name));
      const attributes = pluginAttributes(api);
      expect(attributes.xla_version).toBe(2);
      expect(attributes.stablehlo_current_version).toHaveLength(3);
      expect(pluginExtensions(api)).toContain("Layouts");
    });

    test("loads twice as the same API, and by address", () => {
      const api = loadPlugin(plugin.path!);
      expect(loadPlugin(plugin.path!)).toBe(api);
      expect(PjrtApi.at(api.address)).toBe(api);
    });

    test("a create option that it does not know is named in an error, by older ones ignored", () => {
      const create = () => PjrtClient.create(loadPlugin(plugin.path!), { no_such_option: 1 });
      if (testPluginApi(name).minor < 115) return create()[Symbol.dispose]();
      const error = failure(create);
      expect(error.code).toBe("INVALID_ARGUMENT");
      expect(error.message).toContain("no_such_option");
    });

    test("opens as many CPU devices as it is told", () => {
      using client = PjrtClient.create(loadPlugin(plugin.path!), { cpu_device_count: 3 });
      expect(client.devices().map(({ id }) => id)).toEqual([0, 1, 2]);
    });
  });
}

describe("what is no plugin is refused with one line that names the file", () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "pjrt-plugin-"));
  });
  afterAll(() => rm(folder, { recursive: true }));

  test("a file that is not there", () => {
    const error = failure(() => loadPlugin(join(folder, "missing.so")));
    expect(error.code).toBe("FAILED_PRECONDITION");
    expect(error.message).toContain("missing.so");
  });

  test("a file that is no library", async () => {
    const path = join(folder, "text.so");
    await Bun.write(path, "not a library");
    expect(failure(() => loadPlugin(path)).message).toMatch(/text\.so/);
  });

  test("a library without GetPjrtApi", () => {
    const error = failure(() => loadPlugin("libm.so.6"));
    expect(error.message).toMatch(/libm\.so\.6.*GetPjrtApi/s);
  });
});

const header = await testHeader();
const compiler = Bun.which("gcc") ?? Bun.which("cc");
const skipMadeUp = header.skip ?? (compiler ? undefined : "no C compiler (gcc or cc) on PATH");
if (skipMadeUp) console.log(`made-up plugins skipped: ${skipMadeUp}`);

/** A plugin whose table ends after PJRT_Client_PlatformName, and whose only client call fails with RESOURCE_EXHAUSTED. */
const MADE_UP_PLUGIN = `
#include "pjrt_c_api.h"
#include <string.h>
static int errors_alive = 0;
int alive(void) { return errors_alive; }
static void destroy(PJRT_Error_Destroy_Args* args) { if (args->error) errors_alive--; }
static void message(PJRT_Error_Message_Args* args) {
  args->message = "no memory left, says the device";
  args->message_size = strlen(args->message);
}
static PJRT_Error* code(PJRT_Error_GetCode_Args* args) { args->code = CODE; return 0; }
static PJRT_Error* initialize(PJRT_Plugin_Initialize_Args* args) {
  return args->struct_size == PJRT_Plugin_Initialize_Args_STRUCT_SIZE ? 0 : (PJRT_Error*)1;
}
static PJRT_Error* create(PJRT_Client_Create_Args* args) { errors_alive++; return (PJRT_Error*)1; }
static PJRT_Api api = {
  .struct_size = PJRT_STRUCT_SIZE(PJRT_Api, PJRT_Client_PlatformName),
  .pjrt_api_version = { .struct_size = PJRT_Api_Version_STRUCT_SIZE, .major_version = MAJOR, .minor_version = MINOR },
  .PJRT_Error_Destroy = destroy, .PJRT_Error_Message = message, .PJRT_Error_GetCode = code,
  .PJRT_Plugin_Initialize = initialize, .PJRT_Client_Create = create,
};
const PJRT_Api* GetPjrtApi(void) { return GIVES_API ? &api : 0; }
`;

describe.skipIf(skipMadeUp !== undefined)("a made-up plugin", () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "pjrt-made-up-"));
    await Bun.write(join(folder, "plugin.c"), MADE_UP_PLUGIN);
  });
  afterAll(() => rm(folder, { recursive: true }));

  function build(name: string, { major = 0, minor = 81, code = 8, givesApi = true } = {}): string {
    const path = join(folder, `${name}.so`);
    const defines = [`-DMAJOR=${major}`, `-DMINOR=${minor}`, `-DCODE=${code}`, `-DGIVES_API=${givesApi ? 1 : 0}`];
    const include = dirname(header.path!);
    const result = Bun.spawnSync([
      ...[compiler!, "-shared", "-fPIC", "-I", include, ...defines, "-o", path, join(folder, "plugin.c")],
    ]);
    if (result.exitCode !== 0) throw new Error(result.stderr.toString());
    return path;
  }

  test("older than 0.81 is refused, with both versions", () => {
    const error = failure(() => loadPlugin(build("old", { minor: 80 })));
    expect(error.code).toBe("FAILED_PRECONDITION");
    expect(error.message).toMatch(/old\.so: the plugin speaks PJRT C API 0\.80, xlaserver needs version 0\.81/);
  });

  test("of another major version is refused", () => {
    expect(failure(() => loadPlugin(build("major", { major: 1, minor: 2 }))).message).toContain("PJRT C API 1.2");
  });

  test("that gives no API is refused", () => {
    expect(failure(() => loadPlugin(build("null", { givesApi: false }))).message).toMatch(/null\.so.*null/);
  });

  test("newer than any that we know is used as far as we know it", () => {
    expect(loadPlugin(build("new", { minor: 250 })).version).toEqual({ major: 0, minor: 250 });
  });

  test("whose table ends early, or has a gap, says UNIMPLEMENTED where it has no function", () => {
    const { calls } = loadPlugin(build("short"));
    // The gap: PJRT_Event_Destroy is null. Beyond the end: PJRT_Client_DmaMap.
    for (const call of [calls.PJRT_Event_Destroy, calls.PJRT_Client_DmaMap]) {
      const error = failure(() => call.run());
      expect(error.code).toBe("UNIMPLEMENTED");
      expect(error.message).toMatch(/PJRT API 0\.81/);
    }
  });

  test("that fails gives an error with its code and message, which is destroyed", () => {
    const path = build("failing");
    const error = failure(() => PjrtClient.create(loadPlugin(path))) as PjrtError;
    expect(error).toBeInstanceOf(PjrtError);
    expect(error.code).toBe("RESOURCE_EXHAUSTED");
    expect(error.functionName).toBe("PJRT_Client_Create");
    expect(error.detail).toBe("no memory left, says the device");
    const { alive } = dlopen(path, { alive: { args: [], returns: "i32" } }).symbols;
    expect(alive()).toBe(0);
  });

  test("whose error code nobody knows is UNKNOWN", () => {
    expect(failure(() => PjrtClient.create(loadPlugin(build("odd", { code: 99 })))).code).toBe("UNKNOWN");
  });

  test("null handles never become objects", () => {
    expect(() => PjrtClient.borrow({ api: loadPlugin(build("handle")).address, client: NULL })).toThrow(/null client/);
  });
});

// `xlaserver plugins`: which PJRT plugins are found, in order of preference, with versions and why one can't be used.
//
// Finding and probing are device/'s; this prints its rows.

import { absolutePath } from "../config/paths.ts";
import { listPlugins, type PluginRow } from "../device/list-plugins.ts";
import type { Command } from "./arguments.ts";
import { cacheDirectory } from "./device-flags.ts";
import { JSON_FLAG, print, printJson, table, wantsJson } from "./output.ts";

export const command: Command = {
  usage: "[flags]",
  details: `
Each is loaded in a process of its own. A server takes the first one of its backend that is not rejected; the one
that --plugin, XLASERVER_RUNTIME_PLUGIN or XLASERVER_PJRT_PLUGIN names is the only candidate of that server.`,
  flags: {
    plugin: { value: "FILE", help: "Look at this plugin too." },
    "cache-dir": { value: "DIR", help: "Where the embedded plugin is unpacked." },
    json: JSON_FLAG,
  },
  async run(args) {
    const given = args.text("plugin") ?? (process.env.XLASERVER_RUNTIME_PLUGIN || undefined);
    const rows = await listPlugins({
      path: given === undefined ? undefined : absolutePath(process.cwd(), given),
      environment: process.env,
      cacheDirectory: cacheDirectory(args),
    });
    if (wantsJson(args)) await printJson(rows);
    else await print(rows.length === 0 ? "no plugin was found\n" : inWords(rows));
    return rows.some(({ rejected }) => rejected === undefined) ? 0 : 1;
  },
};

function inWords(rows: readonly PluginRow[]): string {
  return table(
    ["ORIGIN", "NAME", "BACKEND", "PJRT", "STABLEHLO", "PATH", ""],
    rows.map(({ origin, name, version, backend, facts, path, rejected }) => [
      origin,
      name === undefined ? "-" : `${name} ${version ?? ""}`.trim(),
      backend ?? "-",
      facts?.apiVersion ?? "-",
      facts?.stablehloVersion ?? "-",
      path,
      rejected === undefined ? "" : `rejected: ${rejected}`,
    ]),
  );
}

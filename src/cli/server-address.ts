// Which server `ready` and `infer` ask: the one that --server names, else the one that this environment would start.
//
// So a health check needs no address of its own when XLASERVER_ENDPOINTS_PORT or the node file change the server's.

import { type Arguments, type Flag, UsageError } from "./arguments.ts";
import { nodeFileVariable, readConfig, warn } from "./settings.ts";

export const SERVER_FLAG: Flag = {
  value: "HOST:PORT",
  help: "Server to ask; by default this machine's, at the port of XLASERVER_NODE_FILE and XLASERVER_ENDPOINTS_PORT (8001).",
};

/** Addresses that stand for every one of the machine's, as a client can reach them. */
const REACHABLE: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" };

/** `host:port`. Errors: UsageError for an address that is none, and for wrong settings. */
export async function serverAddress(args: Arguments): Promise<string> {
  const given = args.text("server");
  if (given !== undefined) {
    if (/^([^:[\]\s]+|\[[^[\]\s]+\]):\d{1,5}$/.test(given)) return given;
    throw new UsageError(`--server: expected HOST:PORT, received '${given}'`);
  }
  // Only the address is wanted: which bundles there are is the server's affair.
  const noBundles = { label: "model_dirs", path: ["model_dirs"], text: ["/"] };
  const { config, warnings } = await readConfig(nodeFileVariable(), [noBundles]);
  warn(warnings);
  const { host, port } = config.endpoints;
  if (port === 0) throw new UsageError("the settings let the server take any free port: give --server HOST:PORT");
  const reachable = REACHABLE[host] ?? host;
  return `${reachable.includes(":") ? `[${reachable}]` : reachable}:${port}`;
}

// Which server a command asks: --server, else the settings of the server that this environment would start.

import { afterEach, expect, test } from "bun:test";
import { type Arguments, parseArguments, UsageError } from "./arguments.ts";
import { command } from "./ready.ts";
import { serverAddress } from "./server-address.ts";

const NAMES = ["XLASERVER_NODE_FILE", "XLASERVER_ENDPOINTS_HOST", "XLASERVER_ENDPOINTS_PORT"] as const;
const before = NAMES.map((name) => process.env[name]);

function setEnvironment(values: readonly (string | undefined)[]): void {
  for (const [index, name] of NAMES.entries()) process.env[name] = values[index] ?? "";
}

afterEach(() => setEnvironment(before));

const addressOf = (...argv: string[]) => serverAddress(parseArguments(command, argv) as Arguments);

test.each<[host: string, port: string, address: string]>([
  ["", "", "127.0.0.1:8001"],
  ["0.0.0.0", "9000", "127.0.0.1:9000"],
  ["::", "", "[::1]:8001"],
  ["10.0.0.5", "9000", "10.0.0.5:9000"],
])("host '%s' and port '%s' are asked at %s", async (host, port, address) => {
  setEnvironment(["", host, port]);
  expect(await addressOf()).toBe(address);
});

test.each(["host:1", "127.0.0.1:8001", "[::1]:8001"])("--server %s wins", async (address) => {
  setEnvironment(["/no/such/node.yaml", "", "9000"]);
  expect(await addressOf("--server", address)).toBe(address);
});

test.each(["21101", "host", "::1:8001", "http://host:8001"])("--server %s is refused", (address) => {
  expect(addressOf("--server", address)).rejects.toThrow(UsageError);
});

test("a port that the server only finds at start must be given", () => {
  setEnvironment(["", "", "0"]);
  expect(addressOf()).rejects.toThrow("give --server HOST:PORT");
});

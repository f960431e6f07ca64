// Triton's flags as our settings, and those that are refused.

import { expect, test } from "bun:test";
import { type Arguments, parseArguments, UsageError } from "./arguments.ts";
import { command, settingsOf } from "./serve.ts";
import { readConfig } from "./settings.ts";

function settings(...argv: string[]): Record<string, unknown> {
  const args = parseArguments(command, argv) as Arguments;
  return Object.fromEntries(settingsOf(args).map(({ path, text }) => [path.join("."), text]));
}

test("Triton's flags become settings", () => {
  const argv = [
    "--model-repository=/a",
    "--model-repository",
    "/b:c",
    "--grpc-port",
    "0",
    "--metrics-port=9",
    "--grpc-address=::1",
  ];
  expect(settings(...argv, "--exit-on-error=true", "--exit-timeout-secs=3", "--log-verbose=1")).toEqual({
    "endpoints.port": "0",
    "endpoints.metrics_port": "9",
    "endpoints.host": "::1",
    drain_seconds: "3",
    model_dirs: ["/a", "/b:c"],
    strict: "true",
    "logging.level": "debug",
  });
  expect(settings("--model-control-mode=none", "--strict-readiness=false", "--allow-http=false")).toEqual({
    model_control_mode: "static",
  });
  expect(settings("--allow-metrics=false")).toEqual({ "endpoints.metrics_port": "off" });
  expect(settings("--allow-metrics")).toEqual({});
});

test.each([[["--http-port=8000"]], [["--allow-http=true"]], [["--strict-readiness"]]])("%p is refused", (argv) => {
  expect(() => settings(...argv)).toThrow(UsageError);
});

test("a control mode of other versions is refused in the flag's own words", () => {
  const message = "--model-control-mode: expected none (not in this version: poll, explicit), received 'poll'";
  expect(() => settings("--model-control-mode=poll")).toThrow(message);
});

test("wrong settings are wrong usage, each named by its flag", async () => {
  const args = parseArguments(command, ["--grpc-port=http", "--backend=tpu", "--model-repository=."]) as Arguments;
  const error = await readConfig(undefined, settingsOf(args)).catch((thrown) => thrown);
  expect(error).toBeInstanceOf(UsageError);
  expect(error.message).toContain('--grpc-port: expected an integer from 0 to 65535, received "http"');
  expect(error.message).toContain('--backend: expected one of cpu, cuda, gpu, received "tpu"');
});

// The log's two formats and the request log: one line an event, whatever the values are.

import { expect, test } from "bun:test";
import { ServerError } from "./errors.ts";
import { createLogger, type LogFormat, type LogLevel } from "./log.ts";
import { createRequestLog } from "./request-log.ts";

function capture(format: LogFormat, level: LogLevel = "debug", terminal = false) {
  const lines: string[] = [];
  const log = createLogger({
    level,
    format,
    terminal,
    write: (line) => lines.push(line),
    wallMs: () => 1_700_000_000_123,
  });
  return { log, lines };
}

test("JSON: one object a line, undefined fields left out, errors with their causes", () => {
  const { log, lines } = capture("auto");
  log.info("listening", { service: "grpc", port: 8001, tls: undefined });
  const cause = new Error("No space left");
  log.error("load failed", { error: new ServerError("INTERNAL", "cannot write", { cause }), bytes: 12n });
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    { time: "2023-11-14T22:13:20.123Z", level: "info", event: "listening", service: "grpc", port: 8001 },
    {
      time: "2023-11-14T22:13:20.123Z",
      level: "error",
      event: "load failed",
      error: "cannot write: caused by: No space left",
      bytes: "12",
    },
  ]);
  expect(lines.every((line) => line.endsWith("\n") && line.indexOf("\n") === line.length - 1)).toBe(true);
});

test("text: values with spaces, quotes or line breaks are quoted, so that an event stays one line", () => {
  const { log, lines } = capture("text");
  log.warn("bundle unavailable", { model: "a b", reason: 'line 1\nsaid "no"', sizes: [1, 4], empty: "" });
  expect(lines).toEqual([
    '22:13:20.123 warn  bundle unavailable model="a b" reason="line 1\\nsaid \\"no\\"" sizes=[1,4] empty=""\n',
  ]);
});

test("text: a mapping is a field for each of its values", () => {
  const { log, lines } = capture("text");
  log.info("config", { strict: false, endpoints: { host: "::1", tls: {} }, models: { "a b": { sizes: ["x y", 2] } } });
  expect(lines).toEqual([
    '22:13:20.123 info  config strict=false endpoints.host=::1 endpoints.tls={} models.a b.sizes=["x y",2]\n',
  ]);
});

test("a terminal gets text by default, and events below the level are dropped", () => {
  const { log, lines } = capture("auto", "warn", true);
  log.debug("quiet");
  log.info("quiet");
  log.warn("heard");
  expect(lines).toHaveLength(1);
  expect(lines[0]).toContain("heard");
  expect(lines[0]).not.toStartWith("{");
});

test("the request log writes the lines of one turn together, and only failures in mode errors", async () => {
  const written: string[] = [];
  const all = createRequestLog("all", "json", (lines) => written.push(lines))!;
  all({ id: "7", model: "simple", status: "OK", rows: 2, batch: 8, queueNs: 1500, computeNs: 2e6, totalNs: 3e6 });
  all({
    id: "",
    model: "nope",
    status: "NOT_FOUND",
    totalNs: 1000,
    error: new ServerError("NOT_FOUND", "no such model"),
  });
  expect(written).toEqual([]);
  await new Promise((resolve) => setImmediate(resolve));
  expect(written).toHaveLength(1);
  const [first, second] = written[0]!
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(first).toMatchObject({
    level: "info",
    event: "request",
    id: "7",
    rows: 2,
    batch: 8,
    queueUs: 2,
    computeUs: 2000,
  });
  expect(second).toMatchObject({ level: "warn", model: "nope", status: "NOT_FOUND", error: "no such model" });

  const errors = createRequestLog("errors", "json", (lines) => written.push(lines))!;
  errors({ id: "", model: "simple", status: "OK", totalNs: 1 });
  await new Promise((resolve) => setImmediate(resolve));
  expect(written).toHaveLength(1);
  expect(createRequestLog("off", "json")).toBeUndefined();
});

test("long values are cut and say by how much; a line stays short whatever a client or a hook sends", () => {
  const { log, lines } = capture("json");
  const text = capture("text");
  const error = new ServerError("INTERNAL", "h".repeat(5e6), { cause: new Error("c".repeat(5e6)) });
  for (const target of [log, text.log]) {
    target.warn("request", { model: "m".repeat(1 << 20), error, nested: { names: ["n".repeat(3000)] } });
  }
  const line = JSON.parse(lines[0]!);
  expect(line.model).toBe(`${"m".repeat(1024)}... (${2 ** 20 - 1024} more characters)`);
  expect(line.error).toStartWith("hhh");
  expect(line.error).toEndWith(" more characters)");
  expect(line.nested.names[0]).toBe(`${"n".repeat(1024)}... (1976 more characters)`);
  for (const written of [lines[0]!, text.lines[0]!]) expect(written.length).toBeLessThan(7000);
});

// The request log: one line a finished request, on top of the log's own format and target.
//
// Lines are collected for one turn of the event loop and written together, since at 100,000 requests a second a system
// call each would cost more than the requests. `off` costs nothing: the caller gets no function. Called by infer/.

import type { StatusCode } from "./errors.ts";
import { createLogger, type LogFormat, type Logger, writeLogLines } from "./log.ts";

export const REQUEST_LOGS = ["off", "errors", "all"] as const;
export type RequestLogMode = (typeof REQUEST_LOGS)[number];

/** One finished request. Times in nanoseconds; rows, batch and times are undefined where the request never got so far. */
export interface RequestRecord {
  readonly id: string;
  readonly model: string;
  readonly status: StatusCode;
  readonly rows?: number | undefined;
  /** Compiled size of the (first) batch it ran in. */
  readonly batch?: number | undefined;
  readonly queueNs?: number | undefined;
  readonly computeNs?: number | undefined;
  readonly totalNs: number;
  /** Why it failed; with causes. */
  readonly error?: unknown;
}

export type RequestLog = (record: RequestRecord) => void;

const microseconds = (ns: number | undefined) => (ns === undefined ? undefined : Math.round(ns / 1000));

/** Undefined for `off`, so that a caller can skip making the record. Failed requests are warnings, others are info. */
export function createRequestLog(
  mode: RequestLogMode,
  format: LogFormat,
  write: (lines: string) => void = writeLogLines,
): RequestLog | undefined {
  if (mode === "off") return undefined;
  let pending = "";
  const flush = () => {
    const lines = pending;
    pending = "";
    write(lines);
  };
  const target: Logger = createLogger({
    level: "info",
    format,
    write: (line) => {
      if (pending === "") setImmediate(flush);
      pending += line;
    },
  });
  return (record) => {
    const failed = record.status !== "OK";
    if (!failed && mode === "errors") return;
    target[failed ? "warn" : "info"]("request", {
      id: record.id === "" ? undefined : record.id,
      model: record.model,
      status: record.status,
      rows: record.rows,
      batch: record.batch,
      queueUs: microseconds(record.queueNs),
      computeUs: microseconds(record.computeNs),
      totalUs: microseconds(record.totalNs),
      error: record.error,
    });
  };
}

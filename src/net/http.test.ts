// Pages answer GET and HEAD; other paths, methods and failures have their statuses.

import { expect, test } from "bun:test";
import { type Page, startHttpServer } from "./http.ts";

test("routes, 404, 405 and 500", async () => {
  const defects: unknown[] = [];
  const server = startHttpServer({
    host: "127.0.0.1",
    port: 0,
    routes: new Map<string, () => Page | Promise<Page>>([
      ["/healthz", () => ({ status: 200, contentType: "text/plain", body: "ok\n" })],
      ["/readyz", () => Promise.resolve({ status: 503, contentType: "text/plain", body: "loading\n" })],
      [
        "/broken",
        () => {
          throw new Error("a defect");
        },
      ],
    ]),
    onDefect: (_, error) => defects.push(error),
  });
  const ask = async (path: string, method = "GET") => {
    const response = await fetch(`http://127.0.0.1:${server.port}${path}`, { method });
    return [response.status, await response.text()];
  };
  try {
    expect(await ask("/healthz")).toEqual([200, "ok\n"]);
    expect(await ask("/healthz?verbose")).toEqual([200, "ok\n"]);
    expect(await ask("/healthz", "HEAD")).toEqual([200, ""]);
    expect(await ask("/readyz")).toEqual([503, "loading\n"]);
    expect(await ask("/healthz/")).toEqual([404, "not found\n"]);
    expect(await ask("/healthz", "POST")).toEqual([405, "method not allowed\n"]);
    expect((await ask("/broken"))[0]).toBe(500);
    expect(defects).toEqual([new Error("a defect")]);
  } finally {
    server.stop();
  }
});

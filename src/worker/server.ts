// The server of one worker: its ports, open from the first moment, before a Core that is still loading.
//
// Liveness is true as soon as the ports are open; readiness when every bundle has settled, until the drain begins.
// Drain order: no new connections and GOAWAY, calls in flight end, then models, hooks and device go. Started by worker.ts.

import { systemClock } from "../base/clock.ts";
import { messageOf, ServerError } from "../base/errors.ts";
import { HEADER_LIST_BYTES_MAX, RECEIVE_WINDOW_BYTES } from "../base/limits.ts";
import { log } from "../base/log.ts";
import type { Config } from "../config/config.ts";
import { loadRepository } from "../model/repository.ts";
import { type GrpcServer, startGrpcServer } from "../net/grpc-server.ts";
import { type HttpServer, type Page, startHttpServer } from "../net/http.ts";
import type { UnaryMethod } from "../net/unary.ts";
import { kserveMethods } from "../service/kserve.ts";
import { startingMethods } from "../service/starting.ts";
import { type Core, openCore } from "./core.ts";
import { metricsPage } from "./metrics-page.ts";

export interface Server extends AsyncDisposable {
  readonly grpcPort: number;
  /** Undefined when it is off. */
  readonly metricsPort: number | undefined;
  /** How many bundles are served and how many are not, once all have settled. Errors: as loadRepository. */
  readonly settled: Promise<{ readonly ready: number; readonly unavailable: number }>;
  /** Lets requests in flight finish, for at most `drain_seconds`. Disposing without it ends them at once. */
  drain(): Promise<void>;
}

/** Why an address can't be listened on: the runtime's own messages name it or not, as it happens. */
const LISTEN_FAILURES: Readonly<Record<string, string>> = {
  EADDRINUSE: "the port is in use",
  EADDRNOTAVAIL: "this machine has no such address",
  EACCES: "permission denied",
};

type MutableMethod = { kind: "unary"; handle: UnaryMethod["handle"] };

/** Errors: UNAVAILABLE for an address that can't be had; those of openCore. */
export async function startServer(config: Config, events: { onFault(): void }): Promise<Server> {
  await using opened = new AsyncDisposableStack();
  const state: { core: Core | undefined; ready: boolean } = { core: undefined, ready: false };
  const methods = new Map<string, MutableMethod>();
  for (const [path, handle] of startingMethods()) methods.set(path, { kind: "unary", handle });
  const grpc = opened.adopt(openGrpc(config, methods), (server) => server.stop());
  const metrics = openMetrics(config, state);
  if (metrics) opened.defer(() => metrics.stop());
  const core = opened.use(await openCore(config));
  // Before what serves them goes, calls end and readiness is over; disposing runs from the last line to the first.
  opened.defer(() => {
    state.ready = false;
    grpc.stop();
  });
  state.core = core;
  core.device.onFault = (error) => {
    log.error("device lost", { error });
    events.onFault();
  };
  const served = { inference: core.inference, device: core.device.info, ready: () => state.ready };
  for (const [path, handle] of kserveMethods(served)) methods.get(path)!.handle = handle;
  const settled = loadModels(config, core).then((counts) => {
    state.ready = true;
    return counts;
  });
  // Whoever asks for `settled` sees the failure; a server that is disposed before must not leave it unhandled.
  settled.catch(() => {});
  const owned = opened.move();
  return {
    grpcPort: grpc.port,
    metricsPort: metrics?.port,
    settled,
    async drain() {
      state.ready = false;
      await grpc.drain(config.drainSeconds * 1e9);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function openGrpc(config: Config, methods: ReadonlyMap<string, UnaryMethod>): GrpcServer {
  const { host, port } = config.endpoints;
  const { maxRecvMsgBytes, maxSendMsgBytes, maxConcurrentStreams } = config.grpc;
  return listen("grpc", host, port, () =>
    startGrpcServer({
      host,
      port,
      methods,
      clock: systemClock,
      limits: {
        streamsMax: maxConcurrentStreams,
        streamWindowBytes: RECEIVE_WINDOW_BYTES,
        connectionWindowBytes: RECEIVE_WINDOW_BYTES,
        headerListBytesMax: HEADER_LIST_BYTES_MAX,
        messageReceiveBytesMax: maxRecvMsgBytes,
        messageSendBytesMax: maxSendMsgBytes,
      },
      onDefect: (path, error) => log.error("request failed", { path, error }),
    }),
  );
}

function openMetrics(
  config: Config,
  state: { readonly core: Core | undefined; readonly ready: boolean },
): HttpServer | undefined {
  const { host, metricsPort: port } = config.endpoints;
  if (port === "off") return undefined;
  const plain = (status: number, body: string): Page => ({ status, contentType: "text/plain; charset=utf-8", body });
  const routes = new Map<string, () => Page>([
    ["/healthz", () => plain(200, "ok\n")],
    ["/readyz", () => (state.ready ? plain(200, "ok\n") : plain(503, "not ready\n"))],
    ["/metrics", () => metricsPage(config, state.core)],
  ]);
  const onDefect = (path: string, error: unknown) => log.error("page failed", { path, error });
  return listen("metrics", host, port, () => startHttpServer({ host, port, routes, onDefect }));
}

function listen<S extends { readonly port: number }>(service: string, host: string, port: number, start: () => S): S {
  try {
    const server = start();
    log.info("listening", { service, address: host, port: server.port });
    return server;
  } catch (cause) {
    const reason = LISTEN_FAILURES[(cause as { code?: string }).code ?? ""] ?? messageOf(cause);
    throw new ServerError("UNAVAILABLE", `cannot listen on ${host}:${port} (${service}): ${reason}`, { cause });
  }
}

async function loadModels(config: Config, { registry, host }: Core): Promise<{ ready: number; unavailable: number }> {
  await loadRepository({ directories: config.modelDirs, include: config.modelsInclude }, registry, host);
  const entries = registry.entries();
  const ready = entries.filter(({ state }) => state === "ready").length;
  return { ready, unavailable: entries.length - ready };
}

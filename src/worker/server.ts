// The server of one worker: its ports, open from the first moment, before a Core that is still loading.
//
// Liveness is true as soon as the ports are open; readiness when every bundle has settled, until the drain begins.
// Drain order: no new connections and GOAWAY, calls in flight end, then models, hooks and device go. Started by worker.ts.

import { systemClock } from "../base/clock.ts";
import { descriptorsMax } from "../base/descriptors.ts";
import { messageOf, ServerError } from "../base/errors.ts";
import { readBytesSync } from "../base/files.ts";
import { DESCRIPTORS_RESERVED, HEADER_LIST_BYTES_MAX, RECEIVE_WINDOW_BYTES } from "../base/limits.ts";
import { log } from "../base/log.ts";
import { didYouMean } from "../base/nearest.ts";
import type { Config } from "../config/config.ts";
import type { Registry } from "../model/registry.ts";
import { loadRepository } from "../model/repository.ts";
import { type GrpcServer, type Method, startGrpcServer } from "../net/grpc-server.ts";
import type { Tls } from "../net/handshakes.ts";
import { type HttpServer, type Page, startHttpServer } from "../net/http.ts";
import type { UnaryMethod } from "../net/unary.ts";
import { kserveMethods, streamingMethods } from "../service/kserve.ts";
import { Reflection } from "../service/reflection.ts";
import { ServingStatus } from "../service/serving-status.ts";
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

interface Service {
  readonly name: string;
  /** How its port is chosen. */
  readonly portSetting: string;
}

const GRPC: Service = { name: "grpc", portSetting: "--grpc-port or endpoints.port" };
const METRICS: Service = { name: "metrics", portSetting: "--metrics-port or endpoints.metrics_port" };
const HOST_SETTING = "--grpc-address or endpoints.host";

/** Why an address can't be listened on, and what to do: the runtime's own messages name it or not, as it happens. */
const LISTEN_FAILURES: Readonly<Record<string, (host: string, port: number, portSetting: string) => string>> = {
  EADDRINUSE: (_, port, portSetting) => `port ${port} is in use: choose another with ${portSetting}`,
  EADDRNOTAVAIL: (host) => `${host} is no address of this machine: choose another with ${HOST_SETTING}`,
  EACCES: (_, port, portSetting) => `permission denied for port ${port}: choose another with ${portSetting}`,
};

interface State {
  /** Undefined until there is a device. */
  core: Core | undefined;
  ready: boolean;
  /** Never ready again, even when the last model is loaded only now. */
  draining: boolean;
}

type MutableMethod = { kind: "unary"; handle: UnaryMethod["handle"] };

/** Errors: UNAVAILABLE for an address that can't be had; those of openCore. */
export async function startServer(config: Config, events: { onFault(): void }): Promise<Server> {
  await using opened = new AsyncDisposableStack();
  const state: State = { core: undefined, ready: false, draining: false };
  const methods = new Map<string, MutableMethod>();
  for (const [path, handle] of startingMethods()) methods.set(path, { kind: "unary", handle });
  const status = new ServingStatus({ ready: () => state.ready, registry: () => state.core?.registry });
  const reflection = new Reflection();
  const always = [...streamingMethods(), ...status.methods(), ...reflection.methods()];
  const grpc = opened.adopt(openGrpc(config, new Map([...methods, ...always])), (server) => server.stop());
  const metrics = openMetrics(config, state);
  if (metrics) opened.defer(() => metrics.stop());
  const core = opened.use(await openCore(config));
  // Before what serves them goes, calls end and readiness is over; disposing runs from the last line to the first.
  opened.defer(() => {
    state.ready = false;
    grpc.stop();
  });
  state.core = core;
  core.registry.onChange = () => status.changed();
  core.device.onFault = (error) => {
    log.error("device lost", { error });
    events.onFault();
  };
  const served = { inference: core.inference, device: core.device.info, ready: () => state.ready };
  for (const [path, handle] of kserveMethods(served)) methods.get(path)!.handle = handle;
  const settled = loadModels(config, core).then((counts) => {
    state.ready = !state.draining;
    status.changed();
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
      state.draining = true;
      // Calls that only their clients would end must not hold the drain up.
      status.drain();
      reflection.drain();
      await grpc.drain(config.drainSeconds * 1e9);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function openGrpc(config: Config, methods: ReadonlyMap<string, Method>): GrpcServer {
  const { host, port, maxInflightBytes } = config.endpoints;
  const { maxRecvMsgBytes, maxSendMsgBytes, maxConcurrentStreams, responseCompression } = config.grpc;
  return listen(GRPC, host, port, () =>
    startGrpcServer({
      host,
      port,
      methods,
      tls: tlsOf(config),
      compressesReplies: responseCompression === "gzip",
      clock: systemClock,
      limits: {
        streamsMax: maxConcurrentStreams,
        streamWindowBytes: RECEIVE_WINDOW_BYTES,
        connectionWindowBytes: RECEIVE_WINDOW_BYTES,
        headerListBytesMax: HEADER_LIST_BYTES_MAX,
        messageReceiveBytesMax: maxRecvMsgBytes,
        messageSendBytesMax: maxSendMsgBytes,
        receiveBytesMax: maxInflightBytes,
        sendBytesMax: maxInflightBytes,
        connectionsMax: Math.max(descriptorsMax() - DESCRIPTORS_RESERVED, 1),
      },
      onDefect: (path, error) => log.error("request failed", { path, error }),
      onCrowded: (connections) => log.warn("connections are turned away: descriptors would run out", { connections }),
    }),
  );
}

/** The files of endpoints.tls, which the Config's check has found good. */
function tlsOf(config: Config): Tls | undefined {
  const { certificate, key, clientCa } = config.endpoints.tls;
  if (certificate === "") return undefined;
  const textOf = (file: string) => Buffer.from(readBytesSync(file)).toString();
  return {
    certificate: textOf(certificate),
    key: textOf(key),
    clientCa: clientCa === "" ? undefined : textOf(clientCa),
  };
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
  return listen(METRICS, host, port, () => startHttpServer({ host, port, routes, onDefect }));
}

function listen<S extends { readonly port: number }>(service: Service, host: string, port: number, start: () => S): S {
  const { name, portSetting } = service;
  try {
    const server = start();
    log.info("listening", { service: name, address: host, port: server.port });
    return server;
  } catch (thrown) {
    const explain = LISTEN_FAILURES[(thrown as { code?: string }).code ?? ""];
    const reason = explain?.(host, port, portSetting) ?? `${messageOf(thrown)}: see ${HOST_SETTING}`;
    throw new ServerError("UNAVAILABLE", `cannot listen on ${host}:${port} (${name}): ${reason}`);
  }
}

async function loadModels(config: Config, { registry, host }: Core): Promise<{ ready: number; unavailable: number }> {
  await loadRepository({ directories: config.modelDirs, include: config.modelsInclude }, registry, host);
  if (!registry.closed) warnOfUnknownModels(config, registry);
  const entries = registry.entries();
  const ready = entries.filter(({ state }) => state === "ready").length;
  return { ready, unavailable: entries.length - ready };
}

/** A policy for a model that is not served is likely a misspelt name. */
function warnOfUnknownModels(config: Config, registry: Registry): void {
  const known = registry.models().map(({ name }) => name);
  for (const name of Object.keys(config.scheduler.models)) {
    if (registry.get(name)) continue;
    log.warn("setting ignored", {
      reason: `scheduler.models.${name}: no such model is served${didYouMean(name, known)}`,
    });
  }
}

// A server's life from outside: ports open while models load, readiness, a drain that lets requests finish, a second
// signal that doesn't, and deaths that leave nothing behind.

import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TempRepository, tempRepository } from "../support/bundles.ts";
import { failure, tensor, text } from "../support/client-server.ts";
import { gateReached, openGate, until, WAITS_AT_LOAD, WAITS_AT_RUN } from "../support/gates.ts";
import { type KserveClient, kserveClient } from "../support/kserve-client.ts";
import { type ServerProcess, spawnServer, startWorker } from "../support/worker.ts";

const START_MS_MAX = 180_000;

const opened = new DisposableStack();
afterAll(() => opened.dispose());

const repositoryOf = (recipes: Parameters<typeof tempRepository>[0]) => opened.use(tempRepository(recipes));

function coldCache(): string {
  const directory = mkdtempSync(join(tmpdir(), "xlaserver-cache-"));
  opened.defer(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** Sends [1, 2, 3] to a gated model; resolves to what comes back. */
async function infer(client: KserveClient, modelName: string, gate?: string): Promise<number[]> {
  const parameters = gate === undefined ? {} : { gate: text(gate) };
  const inputs = [{ ...tensor("x", "FP32", 1, 3), contents: { fp32Contents: [1, 2, 3] } }];
  const { rawOutputContents } = await client.call("modelInfer", { modelName, parameters, inputs });
  return [...new Float32Array(rawOutputContents[0]!.slice().buffer)];
}

async function page(server: ServerProcess, path: string): Promise<number> {
  const answer = await fetch(`http://127.0.0.1:${await server.port("metrics")}${path}`);
  await answer.text();
  return answer.status;
}

/** Whether somebody listens there. */
function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.on("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => resolve(false));
  });
}

async function held(): Promise<{ repository: TempRepository; server: ServerProcess; client: KserveClient }> {
  const repository = repositoryOf({ late: WAITS_AT_LOAD, simple: { from: "simple" } });
  const server = spawnServer({ repository: repository.directory });
  const client = kserveClient(`127.0.0.1:${await server.port("grpc")}`);
  return { repository, server, client };
}

test(
  "while a model loads the server is live, not ready, and serves the others; then it is ready",
  async () => {
    const { repository, server: spawned, client: channel } = await held();
    await using server = spawned;
    using client = channel;
    expect((await client.call("serverLive", {})).live).toBe(true);
    expect(await page(server, "/healthz")).toBe(200);
    await server.logged("model ready", ({ model }) => model === "simple");

    expect((await client.call("serverReady", {})).ready).toBe(false);
    expect(await page(server, "/readyz")).toBe(503);
    expect(await page(server, "/metrics")).toBe(200);
    expect((await client.call("modelReady", { name: "simple" })).ready).toBe(true);
    expect((await client.call("modelReady", { name: "late" })).ready).toBe(false);
    expect(await failure(infer(client, "late"))).toBe("UNAVAILABLE: model 'late' is not available: it is loading");
    const states = async (ready: boolean) =>
      (await client.call("repositoryIndex", { ready })).models.map(({ name, state }) => `${name} ${state}`);
    expect(await states(false)).toEqual(["late LOADING", "simple READY"]);
    expect(await states(true)).toEqual(["simple READY"]);

    openGate(repository, "late", "load");
    await server.logged("ready");
    expect((await client.call("serverReady", {})).ready).toBe(true);
    expect(await page(server, "/readyz")).toBe(200);
    expect(await infer(client, "late")).toEqual([1, 2, 3]);
    expect(await states(true)).toEqual(["late READY", "simple READY"]);
  },
  START_MS_MAX,
);

test(
  "a signal while models load ends the server",
  async () => {
    const { server: spawned, client: channel } = await held();
    await using server = spawned;
    using client = channel;
    expect((await client.call("serverLive", {})).live).toBe(true);
    await server.logged("model ready", ({ model }) => model === "simple");
    server.kill("SIGTERM");
    expect(await server.exited).toBe(0);
    expect(server.log.filter(({ level }) => level === "error")).toEqual([]);
  },
  START_MS_MAX,
);

test(
  "a signal before there is a device ends the server",
  async () => {
    const repository = repositoryOf({ simple: { from: "simple" } });
    await using server = spawnServer({ repository: repository.directory, cacheDirectory: coldCache() });
    await server.port("metrics");
    server.kill("SIGTERM");
    expect(await server.exited).toBe(0);
  },
  START_MS_MAX,
);

async function serving(flags: readonly string[] = []) {
  const repository = repositoryOf({ gated: WAITS_AT_RUN });
  const environment = { XLASERVER_HOOKS_THREADS: "8" };
  const server = await startWorker({ repository: repository.directory, flags, environment });
  return { repository, server };
}

test.each(["SIGTERM", "SIGINT"] as const)(
  "%s lets requests in flight finish, refuses new ones, and exits with 0",
  async (signal) => {
    const { repository, server: started } = await serving();
    await using server = started;
    using first = kserveClient(server.address);
    using second = kserveClient(server.address, { "grpc.use_local_subchannel_pool": 1 });
    const gates = ["a", "b", "c", "d"];
    const replies = gates.map((gate, index) => infer(index % 2 ? first : second, "gated", gate));
    await Promise.all(gates.map((gate) => gateReached(repository, "gated", gate)));

    server.kill(signal);
    await server.logged("draining");
    await until(async () => !(await listens(server.grpcPort)));
    expect(await page(server, "/readyz")).toBe(503);
    using third = kserveClient(server.address, { "grpc.use_local_subchannel_pool": 1 });
    expect(await failure(infer(third, "gated"))).toStartWith("UNAVAILABLE");
    expect(await failure(infer(first, "gated"))).toStartWith("UNAVAILABLE");

    for (const gate of gates) openGate(repository, "gated", gate);
    expect(await Promise.all(replies)).toEqual(gates.map(() => [1, 2, 3]));
    expect(await server.exited).toBe(0);
    expect(server.log.at(-1)?.event).toBe("stopped");
  },
  START_MS_MAX,
);

test(
  "a drain that takes too long ends what is left",
  async () => {
    const { repository, server: started } = await serving(["--exit-timeout-secs", "0.2"]);
    await using server = started;
    using client = kserveClient(server.address);
    const outcome = failure(infer(client, "gated", "never"));
    await gateReached(repository, "gated", "never");
    server.kill("SIGTERM");
    expect(await outcome).toMatch(/^(UNAVAILABLE|CANCELLED)/);
    expect(await server.exited).toBe(0);
  },
  START_MS_MAX,
);

test(
  "a second signal exits at once",
  async () => {
    const { repository, server: started } = await serving(["--exit-timeout-secs", "3600"]);
    await using server = started;
    using client = kserveClient(server.address);
    const outcome = failure(infer(client, "gated", "never"));
    await gateReached(repository, "gated", "never");
    server.kill("SIGTERM");
    await server.logged("draining");
    server.kill("SIGTERM");
    expect(await server.exited).toBe(1);
    expect(await outcome).toStartWith("UNAVAILABLE");
  },
  START_MS_MAX,
);

/** Waits on the device for what never comes. */
const NEVER_ENDS = `module { func.func public @main(%x: tensor<1x3xf32>) -> tensor<1x3xf32> {
  %token = stablehlo.create_token : !stablehlo.token
  %y:2 = "stablehlo.infeed"(%token) {infeed_config = ""} : (!stablehlo.token) -> (tensor<1x3xf32>, !stablehlo.token)
  return %y#0 : tensor<1x3xf32>
} }
`;

test(
  "an execution that never ends does not keep a drained server alive",
  async () => {
    const files = { ...WAITS_AT_RUN.files, "model.b1.mlir": NEVER_ENDS, "model.ts": null };
    const repository = repositoryOf({ endless: { files }, simple: { from: "simple" } });
    repository.put("endless", { manifest: { warmup: false, hooks: undefined } });
    const flags = ["--exit-timeout-secs", "0.2"];
    await using server = await startWorker({ repository: repository.directory, flags });
    using client = kserveClient(server.address);
    const outcome = failure(infer(client, "endless"));
    // In flight and in no queue: it executes.
    const states = [/^worker_inflight_requests{.*} 1$/m, /^worker_queue_depth{model="endless".*} 0$/m];
    await until(async () => {
      const metrics = await (await fetch(`http://127.0.0.1:${server.metricsPort}/metrics`)).text();
      return states.every((state) => state.test(metrics));
    });
    server.kill("SIGTERM");
    expect(await outcome).toStartWith("UNAVAILABLE");
    expect(await server.exited).toBe(0);
    expect(server.log.some(({ event }) => event.startsWith("not closed in time"))).toBe(true);
  },
  START_MS_MAX,
);

/** The processes that a process has started and that live. */
function childrenOf(pid: number): number[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((thread) => {
    try {
      return readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8").split(" ").filter(Boolean).map(Number);
    } catch {
      return []; // the thread has ended meanwhile
    }
  });
}

/** True for a process that is there and more than an unread exit code. */
function lives(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

test.each(["SIGKILL", "SIGTERM"] as const)(
  "%s while it compiles leaves no process behind",
  async (signal) => {
    const repository = repositoryOf({ minilm: { from: "minilm" } });
    await using server = spawnServer({ repository: repository.directory, cacheDirectory: coldCache() });
    await server.port("grpc");
    let children: number[] = [];
    await until(() => {
      children = childrenOf(server.pid);
      return children.length > 0;
    });
    server.kill(signal);
    expect(await server.exited).toBe(signal === "SIGKILL" ? "SIGKILL" : 0);
    await until(() => !children.some(lives));
  },
  START_MS_MAX,
);

// grpc.health.v1 Watch by grpc-js: a server's and a model's life from its start to its drain, as a load balancer sees it.

import { afterAll, expect, test } from "bun:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Client, credentials, type ServiceError, status } from "@grpc/grpc-js";
import {
  HealthCheckRequestSchema,
  HealthCheckResponse_ServingStatus,
  HealthCheckResponseSchema,
} from "../../proto/gen/grpc/health/v1/health_pb.ts";
import { ServerReflection } from "../../proto/gen/grpc/reflection/v1/reflection_pb.ts";
import { tempRepository } from "../support/bundles.ts";
import { tensor, text } from "../support/client-server.ts";
import { gateReached, openGate, until, WAITS_AT_LOAD, WAITS_AT_RUN } from "../support/gates.ts";
import { kserveClient } from "../support/kserve-client.ts";
import { type LogLine, spawnServer } from "../support/worker.ts";

const START_MS_MAX = 180_000;
/** Far longer than the test may take: only calls that end let a drain end before. */
const DRAIN_FLAGS = ["--exit-timeout-secs", "3600"];

const opened = new DisposableStack();
afterAll(() => opened.dispose());

const asIs = (bytes: Buffer) => bytes;

/** Watches a service; `told` grows with each status, `ended` is how the call ended. */
function watch(client: Client, service: string) {
  const request = toBinary(HealthCheckRequestSchema, create(HealthCheckRequestSchema, { service }));
  const call = client.makeServerStreamRequest("/grpc.health.v1.Health/Watch", asIs, asIs, Buffer.from(request));
  const told: string[] = [];
  call.on("data", (bytes: Buffer) => {
    told.push(HealthCheckResponse_ServingStatus[fromBinary(HealthCheckResponseSchema, new Uint8Array(bytes)).status]);
  });
  const ended = new Promise<string>((resolve) => {
    call.on("error", ({ code, details }: ServiceError) => resolve(`${status[code]}: ${details}`));
  });
  return { call, told, ended };
}

async function connected(server: ReturnType<typeof spawnServer>): Promise<Client> {
  const client = new Client(`127.0.0.1:${await server.port("grpc")}`, credentials.createInsecure());
  return opened.adopt(client, (channel) => channel.close());
}

test(
  "a load, readiness and a drain, which waits for no Watch and no reflection",
  async () => {
    const repository = opened.use(tempRepository({ late: WAITS_AT_LOAD, simple: { from: "simple" } }));
    await using server = spawnServer({ repository: repository.directory, flags: DRAIN_FLAGS });
    const client = await connected(server);
    const [whole, late, nobody] = [watch(client, ""), watch(client, "late"), watch(client, "nobody")];
    await server.logged("model ready", ({ model }: LogLine) => model === "simple");
    // Before its bundle is found a model is not known, if the watch came first.
    await until(() => late.told.at(-1) === "NOT_SERVING");
    const simple = watch(client, "simple");
    await until(() => simple.told.length > 0 && whole.told.length > 0);
    expect([simple.told, whole.told]).toEqual([["SERVING"], ["NOT_SERVING"]]);

    openGate(repository, "late", "load");
    await until(() => whole.told.at(-1) === "SERVING");
    expect(late.told.filter((each) => each !== "SERVICE_UNKNOWN")).toEqual(["NOT_SERVING", "SERVING"]);

    const reflection = client.makeBidiStreamRequest(`/${ServerReflection.typeName}/ServerReflectionInfo`, asIs, asIs);
    const reflectionEnded = new Promise((resolve) => reflection.on("error", resolve));
    const gone = watch(client, "late");
    await until(() => gone.told.length > 0);
    gone.call.cancel();
    expect(await gone.ended).toStartWith("CANCELLED");

    server.kill("SIGTERM");
    const draining = "UNAVAILABLE: the server is draining";
    expect(await Promise.all([whole, late, simple, nobody].map(({ ended }) => ended))).toEqual(Array(4).fill(draining));
    expect(await reflectionEnded).toMatchObject({ code: status.UNAVAILABLE });
    expect(whole.told).toEqual(["NOT_SERVING", "SERVING", "NOT_SERVING"]);
    expect([late, simple].map(({ told }) => told.at(-1))).toEqual(["NOT_SERVING", "NOT_SERVING"]);
    expect(nobody.told).toEqual(["SERVICE_UNKNOWN"]);
    expect(await server.exited).toBe(0);
    expect(server.log.filter(({ level }) => level === "error")).toEqual([]);
  },
  START_MS_MAX,
);

test(
  "a drain while a model loads is told, and readiness does not come after it",
  async () => {
    const repository = opened.use(tempRepository({ late: WAITS_AT_LOAD, gated: WAITS_AT_RUN }));
    await using server = spawnServer({ repository: repository.directory, flags: DRAIN_FLAGS });
    const client = await connected(server);
    const [whole, late] = [watch(client, ""), watch(client, "late")];
    await server.logged("model ready", ({ model }: LogLine) => model === "gated");
    await until(() => late.told.at(-1) === "NOT_SERVING");
    using inference = kserveClient(`127.0.0.1:${await server.port("grpc")}`);
    const reply = inference.call("modelInfer", {
      modelName: "gated",
      parameters: { gate: text("run") },
      inputs: [{ ...tensor("x", "FP32", 1, 3), contents: { fp32Contents: [1, 2, 3] } }],
    });
    await gateReached(repository, "gated", "run");

    server.kill("SIGTERM");
    expect(await whole.ended).toBe("UNAVAILABLE: the server is draining");
    expect(whole.told).toEqual(["NOT_SERVING"]);
    openGate(repository, "late", "load");
    await server.logged("model ready", ({ model }: LogLine) => model === "late");
    expect((await fetch(`http://127.0.0.1:${await server.port("metrics")}/readyz`)).status).toBe(503);
    openGate(repository, "gated", "run");
    expect((await reply).modelName).toBe("gated");
    expect(await server.exited).toBe(0);
  },
  START_MS_MAX,
);

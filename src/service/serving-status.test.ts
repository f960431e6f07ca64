// grpc.health.v1 by its handlers: every state of the server and of a model, what a Watch tells, its bounds and its end.

import { expect, test } from "bun:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  HealthCheckRequestSchema,
  HealthCheckResponse_ServingStatus,
  HealthCheckResponseSchema,
} from "../../proto/gen/grpc/health/v1/health_pb.ts";
import { openMemoryRpc } from "../../tests/support/memory-rpc.ts";
import { ServerError } from "../base/errors.ts";
import { HEALTH_WATCHES_MAX } from "../base/limits.ts";
import type { Model } from "../model/model.ts";
import { Registry } from "../model/registry.ts";
import { Chunks } from "../tensor/byte-source.ts";
import { ServingStatus } from "./serving-status.ts";

const INFERENCE = "inference.GRPCInferenceService";
const modelNamed = (name: string) => ({ name }) as Model;
const request = (service: string) => toBinary(HealthCheckRequestSchema, create(HealthCheckRequestSchema, { service }));

/** A server that is starting: not ready, and without a registry until `open()`. */
function starting() {
  const registry = new Registry();
  const state: { ready: boolean; registry: Registry | undefined } = { ready: false, registry: undefined };
  const status = new ServingStatus({ ready: () => state.ready, registry: () => state.registry });
  registry.onChange = () => status.changed();
  const methods = status.methods();
  const check = (service: string): string => {
    const method = methods.get("/grpc.health.v1.Health/Check")!;
    if (method.kind !== "unary") throw new Error("Check is unary");
    try {
      const { chunks } = method.handle(Chunks.of(request(service)), undefined as never) as { chunks: Uint8Array[] };
      return HealthCheckResponse_ServingStatus[fromBinary(HealthCheckResponseSchema, chunks[0]!).status];
    } catch (error) {
      if (error instanceof ServerError) return `${error.code} ${error.message}`;
      throw error;
    }
  };
  const open = () => openMemoryRpc(methods.get("/grpc.health.v1.Health/Watch"));
  const watch = (service: string) => {
    const memory = open();
    memory.send(request(service));
    memory.halfClose();
    const told = () =>
      memory.read(HealthCheckResponseSchema).map(({ status }) => HealthCheckResponse_ServingStatus[status]);
    return { memory, told };
  };
  return { registry, state, status, check, open, watch };
}

test("Check: the server, its service, and each model through its states", () => {
  const { registry, state, status, check } = starting();
  const all = () => ["", INFERENCE, "m", "broken"].map(check);
  const unknown = (name: string) => `NOT_FOUND unknown service or model '${name}'`;
  expect(all()).toEqual(["NOT_SERVING", "NOT_SERVING", unknown("m"), unknown("broken")]);
  state.registry = registry;
  registry.begin("m");
  registry.refuse("broken", "no manifest");
  expect(all()).toEqual(["NOT_SERVING", "NOT_SERVING", "NOT_SERVING", "NOT_SERVING"]);
  registry.admit(modelNamed("m"));
  expect(all()).toEqual(["NOT_SERVING", "NOT_SERVING", "SERVING", "NOT_SERVING"]);
  state.ready = true;
  expect(all()).toEqual(["SERVING", "SERVING", "SERVING", "NOT_SERVING"]);
  expect(check("nobody")).toBe(unknown("nobody"));
  status.drain();
  expect(all()).toEqual(["NOT_SERVING", "NOT_SERVING", "NOT_SERVING", "NOT_SERVING"]);
});

test("Watch tells the status at once and each change once, and the drain last", () => {
  const { registry, state, status, watch } = starting();
  const [server, model, other] = [watch(""), watch("m"), watch("nobody")];
  const told = () => [server.told(), model.told(), other.told()];
  expect(told()).toEqual([["NOT_SERVING"], ["SERVICE_UNKNOWN"], ["SERVICE_UNKNOWN"]]);
  state.registry = registry;
  registry.begin("m");
  expect(told()).toEqual([[], ["NOT_SERVING"], []]);
  registry.begin("another");
  expect(told()).toEqual([[], [], []]);
  registry.admit(modelNamed("m"));
  expect(told()).toEqual([[], ["SERVING"], []]);
  state.ready = true;
  status.changed();
  status.changed();
  expect(told()).toEqual([["SERVING"], [], []]);
  registry.refuse("m", "gone");
  registry.admit(modelNamed("m"));
  expect(told()).toEqual([[], ["NOT_SERVING", "SERVING"], []]);
  status.drain();
  expect(told()).toEqual([["NOT_SERVING"], ["NOT_SERVING"], []]);
  for (const { memory } of [server, model, other]) expect(memory.status).toBe("UNAVAILABLE the server is draining");
  expect(watch("").memory.status).toBe("UNAVAILABLE the server is draining");
});

test("a Watch whose request is not complete is told nothing, and ended by the drain", () => {
  const { status, open } = starting();
  const [silent, half] = [open(), open()];
  half.send(request(""));
  status.changed();
  expect([...silent.read(HealthCheckResponseSchema), ...half.read(HealthCheckResponseSchema)]).toEqual([]);
  status.drain();
  expect([silent.status, half.status]).toEqual(Array(2).fill("UNAVAILABLE the server is draining"));
});

test.each<[string, Uint8Array[], string]>([
  ["no message", [], "UNIMPLEMENTED Watch takes one message, none came"],
  ["two messages", [request(""), request("")], "UNIMPLEMENTED Watch takes one message, two came"],
  ["malformed bytes", [Uint8Array.of(0x0a, 0xff)], "INVALID_ARGUMENT malformed protobuf: HealthCheckRequest: "],
  ["a name that is too long", [request("m".repeat(200))], "INVALID_ARGUMENT service: 200 characters, at most 128"],
])("Watch refuses %s", (_name, messages, refusal) => {
  const { open } = starting();
  const memory = open();
  for (const message of messages) memory.send(message);
  memory.halfClose();
  expect(memory.status).toStartWith(refusal);
  expect(memory.defects).toEqual([]);
});

test("watches are bounded, and clients that vanish make room", () => {
  const { status, watch } = starting();
  const memories = Array.from({ length: HEALTH_WATCHES_MAX }, () => watch("m").memory);
  expect(watch("m").memory.status).toStartWith("RESOURCE_EXHAUSTED health watches: ");
  for (const memory of memories) memory.vanish();
  const { members } = (status as unknown as { watches: { members: Set<unknown> } }).watches;
  expect(members.size).toBe(0);
  expect(watch("").told()).toEqual(["NOT_SERVING"]);
});

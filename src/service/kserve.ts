// The methods of inference.GRPCInferenceService by path: which file answers which RPC.
//
// An RPC of the contract that has no row here is known and not served: UNIMPLEMENTED, in words.
// Called by worker/, which hands the table to net/.

import { GRPCInferenceService } from "../../proto/gen/grpc_service_pb.ts";
import { ServerError } from "../base/errors.ts";
import type { DeviceInfo } from "../device/device.ts";
import type { Inference } from "../infer/inference.ts";
import type { StreamingMethod } from "../net/grpc-server.ts";
import { modelConfig } from "./config.ts";
import { modelReady } from "./health.ts";
import { modelInfer } from "./inference.ts";
import { modelMetadata, serverMetadata } from "./metadata.ts";
import { repositoryIndex } from "./repository.ts";
import { modelStatistics } from "./statistics.ts";
import { type UnaryHandler, unary } from "./unary.ts";

/** What the services answer from. */
export interface Served {
  readonly inference: Inference;
  readonly device: DeviceInfo;
  /** Whether the server takes work: every bundle has settled, and it is not draining. */
  ready(): boolean;
}

/** Handlers by path, e.g. `/inference.GRPCInferenceService/ModelInfer`. */
export function kserveMethods({ inference, device, ready }: Served): Map<string, UnaryHandler> {
  const { method } = GRPCInferenceService;
  const { registry } = inference;
  const methods = new Map<string, UnaryHandler>();
  for (const { name, methodKind } of GRPCInferenceService.methods) {
    // A handler of one message would wait for the end of a stream: those are streamingMethods().
    if (methodKind === "unary") methods.set(pathOf(name), () => notServed(name));
  }
  const serve = (name: string, handler: UnaryHandler) => methods.set(pathOf(name), handler);
  serve("ModelInfer", modelInfer(inference));
  serve(
    "ServerLive",
    unary(method.serverLive, () => ({ live: true })),
  );
  serve(
    "ServerReady",
    unary(method.serverReady, () => ({ ready: ready() })),
  );
  serve(
    "ModelReady",
    unary(method.modelReady, ({ name }) => ({ ready: modelReady(registry, name) })),
  );
  serve("ServerMetadata", unary(method.serverMetadata, serverMetadata));
  serve(
    "ModelMetadata",
    unary(method.modelMetadata, ({ name }) => modelMetadata(registry.bind(name), device)),
  );
  serve(
    "ModelConfig",
    unary(method.modelConfig, ({ name }) => ({ config: modelConfig(registry.bind(name), device) })),
  );
  serve(
    "ModelStatistics",
    unary(method.modelStatistics, ({ name }) => modelStatistics(registry, name)),
  );
  serve(
    "RepositoryIndex",
    unary(method.repositoryIndex, (request) => repositoryIndex(registry, request)),
  );
  return methods;
}

/** The methods that take or give a stream of messages, none of which is served: refused before a message comes. */
export function streamingMethods(): Map<string, StreamingMethod> {
  const streaming = GRPCInferenceService.methods.filter(({ methodKind }) => methodKind !== "unary");
  return new Map(
    streaming.map(({ name }) => [pathOf(name), { kind: "streaming", open: () => notServed(name) } as const]),
  );
}

function pathOf(method: string): string {
  return `/${GRPCInferenceService.typeName}/${method}`;
}

function notServed(method: string): never {
  throw new ServerError("UNIMPLEMENTED", `${method} is not served by this version of xlaserver`);
}

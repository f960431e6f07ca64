// What the server answers between opening its ports and having a device: it lives, it is not ready, the rest must wait.
//
// Opening a device takes from a tenth of a second to many; orchestrators want to see the process live meanwhile.
// Used by worker/ until kserveMethods() takes over.

import { GRPCInferenceService } from "../../proto/gen/grpc_service_pb.ts";
import { ServerError } from "../base/errors.ts";
import { type UnaryHandler, unary } from "./unary.ts";

/** Handlers of every unary method of the service while the server starts, by path. */
export function startingMethods(): Map<string, UnaryHandler> {
  const { method, methods, typeName } = GRPCInferenceService;
  const starting = () => {
    throw new ServerError("UNAVAILABLE", "the server is starting");
  };
  const handlers = new Map<string, UnaryHandler>();
  for (const { name, methodKind } of methods)
    if (methodKind === "unary") handlers.set(`/${typeName}/${name}`, starting);
  handlers.set(
    `/${typeName}/ServerLive`,
    unary(method.serverLive, () => ({ live: true })),
  );
  handlers.set(
    `/${typeName}/ServerReady`,
    unary(method.serverReady, () => ({ ready: false })),
  );
  handlers.set(
    `/${typeName}/ModelReady`,
    unary(method.modelReady, () => ({ ready: false })),
  );
  return handlers;
}

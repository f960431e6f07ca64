// What the server answers between opening its ports and having a device: it lives, it is not ready, the rest must wait.
//
// Opening a device takes from a tenth of a second to many; orchestrators want to see the process live meanwhile.
// Used by worker/ until kserveMethods() takes over.

import { GRPCInferenceService } from "../../proto/gen/grpc_service_pb.ts";
import { ServerError } from "../base/errors.ts";
import { type UnaryHandler, unary } from "./unary.ts";

/** The handler of `path` while the server starts. */
export function startingMethod(path: string): UnaryHandler {
  const { method, typeName } = GRPCInferenceService;
  switch (path) {
    case `/${typeName}/ServerLive`:
      return unary(method.serverLive, () => ({ live: true }));
    case `/${typeName}/ServerReady`:
      return unary(method.serverReady, () => ({ ready: false }));
    case `/${typeName}/ModelReady`:
      return unary(method.modelReady, () => ({ ready: false }));
    default:
      return () => {
        throw new ServerError("UNAVAILABLE", "the server is starting");
      };
  }
}

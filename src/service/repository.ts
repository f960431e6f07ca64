// RepositoryIndex: every bundle the server knows, sorted by name, with its state and the reason if it is broken.
//
// Used by kserve.ts.

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { RepositoryIndexRequest, RepositoryIndexResponseSchema } from "../../proto/gen/grpc_service_pb.ts";
import type { EntryState, Registry } from "../model/registry.ts";

/** Triton's names of a model's states. */
const STATES: Readonly<Record<EntryState, string>> = {
  loading: "LOADING",
  ready: "READY",
  unavailable: "UNAVAILABLE",
};

/** There is one repository, so `repositoryName` is ignored. */
export function repositoryIndex(
  registry: Registry,
  request: RepositoryIndexRequest,
): MessageInitShape<typeof RepositoryIndexResponseSchema> {
  const entries = registry.entries().filter(({ state }) => !request.ready || state === "ready");
  return { models: entries.map(({ name, state, reason }) => ({ name, state: STATES[state], reason })) };
}

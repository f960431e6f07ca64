// grpc.health.v1.Health: whether the server, its inference service, and each model by its name take requests.
//
// A status is derived from the server's state when it is needed, never kept; a Watch keeps only what it last told, so it
// tells each change once. Made by worker/ before there is a device, told by it of every change (`changed`, `drain`).

import { create, toBinary } from "@bufbuild/protobuf";
import {
  Health,
  HealthCheckRequestSchema,
  HealthCheckResponse_ServingStatus,
  HealthCheckResponseSchema,
} from "../../proto/gen/grpc/health/v1/health_pb.ts";
import { GRPCInferenceService } from "../../proto/gen/grpc_service_pb.ts";
import { ServerError } from "../base/errors.ts";
import { HEALTH_WATCHES_MAX, MODEL_NAME_LENGTH_MAX } from "../base/limits.ts";
import type { Registry } from "../model/registry.ts";
import type { Method } from "../net/grpc-server.ts";
import type { Rpc, RpcReceiver } from "../net/rpc.ts";
import type { ByteSource } from "../tensor/byte-source.ts";
import { StandingCalls } from "./standing-calls.ts";
import { decode, unary } from "./unary.ts";

const { SERVING, NOT_SERVING, SERVICE_UNKNOWN } = HealthCheckResponse_ServingStatus;

/** The names that mean the server as a whole, whatever its models are called. */
const SERVER_NAMES: ReadonlySet<string> = new Set(["", GRPCInferenceService.typeName]);

/** Longer names are nobody's, and would only be remembered. */
const NAME_LENGTH_MAX = Math.max(MODEL_NAME_LENGTH_MAX, GRPCInferenceService.typeName.length);

/** What statuses are derived from. */
export interface StatusSource {
  /** As Served.ready. */
  ready(): boolean;
  /** Undefined until there is a device: no model is known. */
  registry(): Registry | undefined;
}

export class ServingStatus {
  private readonly watches = new StandingCalls<Watch>("health watches", HEALTH_WATCHES_MAX);

  constructor(private readonly source: StatusSource) {}

  /** Of the server ("" or its inference service) or a model; SERVICE_UNKNOWN for any other name. */
  of(service: string): HealthCheckResponse_ServingStatus {
    const serving = this.serving(service);
    if (serving === undefined) return SERVICE_UNKNOWN;
    return serving && !this.watches.draining ? SERVING : NOT_SERVING;
  }

  private serving(service: string): boolean | undefined {
    if (SERVER_NAMES.has(service)) return this.source.ready();
    const entry = this.source.registry()?.get(service);
    return entry && entry.state === "ready";
  }

  /** Readiness or a model's state may have changed: tells those who watch. Never throws. */
  changed(): void {
    for (const watch of this.watches.open()) {
      try {
        watch.tell();
      } catch (error) {
        watch.call.fail(error);
      }
    }
  }

  /** From now on nothing is serving. Every Watch is told so and ended, since a drain waits for open calls. */
  drain(): void {
    this.watches.refuse();
    this.changed();
    this.watches.drain();
  }

  /** Check and Watch by path. */
  methods(): Map<string, Method> {
    const { check, watch } = Health.method;
    const handle = unary(check, ({ service }) => {
      const status = this.of(service);
      if (status === SERVICE_UNKNOWN) throw new ServerError("NOT_FOUND", `unknown service or model '${service}'`);
      return { status };
    });
    const open = (call: Rpc) => {
      const receiver = new Watch(call, this);
      this.watches.admit(receiver);
      return receiver;
    };
    return new Map<string, Method>([
      [`/${Health.typeName}/${check.name}`, { kind: "unary", handle }],
      [`/${Health.typeName}/${watch.name}`, { kind: "streaming", open }],
    ]);
  }
}

/** One call of Watch. */
class Watch implements RpcReceiver {
  private service: string | undefined;
  private watching = false;
  private told: HealthCheckResponse_ServingStatus | undefined;

  constructor(
    readonly call: Rpc,
    private readonly status: ServingStatus,
  ) {}

  message(message: ByteSource): void {
    if (this.service !== undefined) throw new ServerError("UNIMPLEMENTED", "Watch takes one message, two came");
    const { service } = decode(HealthCheckRequestSchema, message);
    if (service.length > NAME_LENGTH_MAX) {
      const limits = `${service.length} characters, at most ${NAME_LENGTH_MAX}`;
      throw new ServerError("INVALID_ARGUMENT", `service: ${limits}`);
    }
    this.service = service;
  }

  halfClose(): void {
    if (this.service === undefined) throw new ServerError("UNIMPLEMENTED", "Watch takes one message, none came");
    this.watching = true;
    this.tell();
  }

  /** Sends the status, unless it is the one told last or the request is not complete. */
  tell(): void {
    if (!this.watching) return;
    const status = this.status.of(this.service!);
    if (status === this.told) return;
    this.told = status;
    this.call.sendMessage([toBinary(HealthCheckResponseSchema, create(HealthCheckResponseSchema, { status }))]);
  }
}

// grpc.reflection, v1 and v1alpha: tools ask the server for its schema, so that they need no proto files.
//
// The two are the same on the wire, so one implementation answers both in v1's messages. What is not known is answered
// with an error response, and the call goes on. Made by worker/ before there is a device: it needs none.

import { create, type DescFile, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { file_grpc_health_v1_health } from "../../proto/gen/grpc/health/v1/health_pb.ts";
import {
  file_grpc_reflection_v1_reflection,
  ServerReflection,
  type ServerReflectionRequest,
  ServerReflectionRequestSchema,
  ServerReflectionResponseSchema,
} from "../../proto/gen/grpc/reflection/v1/reflection_pb.ts";
import {
  file_grpc_reflection_v1alpha_reflection,
  ServerReflection as ServerReflectionV1Alpha,
} from "../../proto/gen/grpc/reflection/v1alpha/reflection_pb.ts";
import { file_grpc_service } from "../../proto/gen/grpc_service_pb.ts";
import { ServerError, STATUS_CODES } from "../base/errors.ts";
import { REFLECTION_REPLIES_MAX, REFLECTIONS_MAX } from "../base/limits.ts";
import type { Method } from "../net/grpc-server.ts";
import type { Rpc, RpcReceiver } from "../net/rpc.ts";
import type { ByteSource } from "../tensor/byte-source.ts";
import { Descriptors } from "./descriptors.ts";
import { StandingCalls } from "./standing-calls.ts";
import { decode } from "./unary.ts";

/** The files whose services this server has. */
export const SERVED_FILES: readonly DescFile[] = [
  file_grpc_service,
  file_grpc_health_v1_health,
  file_grpc_reflection_v1_reflection,
  file_grpc_reflection_v1alpha_reflection,
];

type Answer = NonNullable<MessageInitShape<typeof ServerReflectionResponseSchema>["messageResponse"]>;

export class Reflection {
  private readonly calls = new StandingCalls<ReflectionCall>("reflection calls", REFLECTIONS_MAX);
  private readonly descriptors = new Descriptors(SERVED_FILES);

  /** ServerReflectionInfo of both versions by path. */
  methods(): Map<string, Method> {
    const open = (call: Rpc) => {
      const receiver = new ReflectionCall(call, this.descriptors);
      this.calls.admit(receiver);
      return receiver;
    };
    return new Map(
      [ServerReflection, ServerReflectionV1Alpha].map(({ typeName, method }) => [
        `/${typeName}/${method.serverReflectionInfo.name}`,
        { kind: "streaming", open } as const,
      ]),
    );
  }

  /** Ends every call, since a drain waits for open ones, and refuses those to come. */
  drain(): void {
    this.calls.drain();
  }
}

/** One call of ServerReflectionInfo. */
class ReflectionCall implements RpcReceiver {
  private repliesWaiting = 0;

  constructor(
    readonly call: Rpc,
    private readonly descriptors: Descriptors,
  ) {}

  message(message: ByteSource): void {
    const request = decode(ServerReflectionRequestSchema, message);
    if (this.repliesWaiting >= REFLECTION_REPLIES_MAX) {
      throw new ServerError("RESOURCE_EXHAUSTED", `${this.repliesWaiting} replies wait to be read: read them first`);
    }
    const reply = create(ServerReflectionResponseSchema, {
      validHost: request.host,
      originalRequest: request,
      messageResponse: answer(request.messageRequest, this.descriptors),
    });
    this.repliesWaiting++;
    this.call.sendMessage([toBinary(ServerReflectionResponseSchema, reply)], () => this.repliesWaiting--);
  }

  halfClose(): void {
    this.call.end("OK");
  }
}

/** Errors: INVALID_ARGUMENT for a request that asks nothing. */
function answer(request: ServerReflectionRequest["messageRequest"], descriptors: Descriptors): Answer {
  switch (request.case) {
    case "listServices":
      return {
        case: "listServicesResponse",
        value: { service: descriptors.services.map((name) => ({ name })) },
      };
    case "fileByFilename":
      return fileOrNot(descriptors, descriptors.fileNamed(request.value), "file", request.value);
    case "fileContainingSymbol":
      return fileOrNot(descriptors, descriptors.fileDeclaring(request.value), "symbol", request.value);
    case "fileContainingExtension": {
      const { containingType, extensionNumber } = request.value;
      return notFound("extension", `${containingType} ${extensionNumber}`);
    }
    case "allExtensionNumbersOfType":
      if (!descriptors.hasMessage(request.value)) return notFound("message", request.value);
      return { case: "allExtensionNumbersResponse", value: { baseTypeName: request.value, extensionNumber: [] } };
    case undefined:
      throw new ServerError("INVALID_ARGUMENT", "ServerReflectionRequest: message_request is not set, or not known");
  }
}

function fileOrNot(descriptors: Descriptors, file: DescFile | undefined, what: string, name: string): Answer {
  if (file === undefined) return notFound(what, name);
  return {
    case: "fileDescriptorResponse",
    value: { fileDescriptorProto: descriptors.serialize(file) as Uint8Array[] },
  };
}

function notFound(what: string, name: string): Answer {
  return {
    case: "errorResponse",
    value: { errorCode: STATUS_CODES.NOT_FOUND, errorMessage: `unknown ${what} '${name}'` },
  };
}

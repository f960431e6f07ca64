// grpc.reflection by its handlers: what is told of the served files, what is not known, its bounds and its end.

import { expect, test } from "bun:test";
import {
  create,
  createFileRegistry,
  type DescFile,
  fromBinary,
  type MessageInitShape,
  toBinary,
} from "@bufbuild/protobuf";
import { nestedTypes } from "@bufbuild/protobuf/reflect";
import { FileDescriptorProtoSchema, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import {
  type ServerReflectionRequest,
  ServerReflectionRequestSchema,
  ServerReflectionResponseSchema,
} from "../../proto/gen/grpc/reflection/v1/reflection_pb.ts";
import { openMemoryRpc } from "../../tests/support/memory-rpc.ts";
import { REFLECTION_REPLIES_MAX } from "../base/limits.ts";
import { Reflection, SERVED_FILES } from "./reflection.ts";

type Question = ServerReflectionRequest["messageRequest"];

const PATHS = ["v1", "v1alpha"].map((version) => `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`);

function bytesOf(request: MessageInitShape<typeof ServerReflectionRequestSchema>): Uint8Array {
  return toBinary(ServerReflectionRequestSchema, create(ServerReflectionRequestSchema, request));
}

function opened(path = PATHS[0]!) {
  const reflection = new Reflection();
  const memory = openMemoryRpc(reflection.methods().get(path));
  const ask = (messageRequest: MessageInitShape<typeof ServerReflectionRequestSchema>["messageRequest"]) => {
    memory.send(bytesOf({ host: "h", messageRequest: messageRequest! }));
    const [reply, ...more] = memory.read(ServerReflectionResponseSchema);
    expect(more).toEqual([]);
    return reply!;
  };
  const files = (question: Question): string[] => {
    const { messageResponse } = ask(question);
    if (messageResponse.case !== "fileDescriptorResponse") throw new Error(`answered with ${messageResponse.case}`);
    return messageResponse.value.fileDescriptorProto.map((bytes) => fromBinary(FileDescriptorProtoSchema, bytes).name);
  };
  return { reflection, memory, ask, files };
}

test.each(PATHS)("%s lists the services", (path) => {
  const { memory, ask } = opened(path);
  const reply = ask({ case: "listServices", value: "*" });
  expect(reply).toMatchObject({
    validHost: "h",
    originalRequest: { host: "h", messageRequest: { case: "listServices", value: "*" } },
    messageResponse: {
      case: "listServicesResponse",
      value: {
        service: [
          { name: "grpc.health.v1.Health" },
          { name: "grpc.reflection.v1.ServerReflection" },
          { name: "grpc.reflection.v1alpha.ServerReflection" },
          { name: "inference.GRPCInferenceService" },
        ],
      },
    },
  });
  memory.halfClose();
  expect(memory.status).toBe("OK");
});

test("a file comes with what it imports, by its name and by each kind of symbol", () => {
  const { files } = opened();
  const inference = ["grpc_service.proto", "model_config.proto"];
  expect(files({ case: "fileByFilename", value: "grpc_service.proto" })).toEqual(inference);
  expect(files({ case: "fileByFilename", value: "model_config.proto" })).toEqual(["model_config.proto"]);
  for (const symbol of [
    "inference.GRPCInferenceService",
    "inference.GRPCInferenceService.ModelInfer",
    "inference.ModelInferRequest",
    "inference.ModelInferRequest.InferInputTensor",
    "inference.ModelInferRequest.InferInputTensor.shape",
    "inference.InferParameter.parameter_choice",
  ]) {
    expect(files({ case: "fileContainingSymbol", value: symbol })).toEqual(inference);
  }
  for (const symbol of ["inference.DataType", "inference.TYPE_BF16", "inference.ModelConfig.name"]) {
    expect(files({ case: "fileContainingSymbol", value: symbol })).toEqual(["model_config.proto"]);
  }
  for (const symbol of [
    "grpc.health.v1.HealthCheckResponse.ServingStatus",
    "grpc.health.v1.HealthCheckResponse.SERVING",
  ]) {
    expect(files({ case: "fileContainingSymbol", value: symbol })).toEqual(["grpc/health/v1/health.proto"]);
  }
});

test("the schema that is sent builds again, and is the one that is served", () => {
  const { ask } = opened();
  for (const file of SERVED_FILES) {
    const { messageResponse } = ask({ case: "fileByFilename", value: file.proto.name });
    if (messageResponse.case !== "fileDescriptorResponse") throw new Error(`answered with ${messageResponse.case}`);
    const protos = messageResponse.value.fileDescriptorProto.map((bytes) =>
      fromBinary(FileDescriptorProtoSchema, bytes),
    );
    const registry = createFileRegistry(create(FileDescriptorSetSchema, { file: protos.reverse() }));
    expect(typeNames(registry.getFile(file.proto.name)!)).toEqual(typeNames(file));
  }
});

const typeNames = (file: DescFile) => [...nestedTypes(file)].map(({ typeName }) => typeName);

test("no file that is served declares an extension", () => {
  const types = SERVED_FILES.flatMap((file) => [file, ...file.dependencies]).flatMap((file) => [...nestedTypes(file)]);
  expect(types.filter(({ kind }) => kind === "extension")).toEqual([]);
});

test("what is not known is answered with an error, and the call goes on", () => {
  const { memory, ask } = opened();
  const unknown = (errorMessage: string) => ({ case: "errorResponse" as const, value: { errorCode: 5, errorMessage } });
  const extension = { containingType: "inference.ModelConfig", extensionNumber: 7 };
  const type = "allExtensionNumbersOfType";
  expect(
    [
      ask({ case: "fileByFilename", value: "../secret" }),
      ask({ case: "fileContainingSymbol", value: "inference.Nobody" }),
      ask({ case: "fileContainingSymbol", value: "" }),
      ask({ case: "fileContainingExtension", value: extension }),
      ask({ case: type, value: "inference.Nobody" }),
      ask({ case: type, value: "inference.ModelConfig" }),
    ].map(({ messageResponse }) => messageResponse),
  ).toMatchObject([
    unknown("unknown file '../secret'"),
    unknown("unknown symbol 'inference.Nobody'"),
    unknown("unknown symbol ''"),
    unknown("unknown extension 'inference.ModelConfig 7'"),
    unknown("unknown message 'inference.Nobody'"),
    {
      case: "allExtensionNumbersResponse",
      value: { baseTypeName: "inference.ModelConfig", extensionNumber: [] },
    },
  ]);
  expect(memory.status).toBeUndefined();
});

test("a request that asks nothing, malformed bytes, and replies that nobody reads end the call", () => {
  const nothing = opened().memory;
  nothing.send(new Uint8Array(0));
  expect(nothing.status).toStartWith("INVALID_ARGUMENT ServerReflectionRequest: message_request is not set");
  const malformed = opened().memory;
  malformed.send(Uint8Array.of(0x0a, 0xff));
  expect(malformed.status).toStartWith("INVALID_ARGUMENT malformed protobuf: ServerReflectionRequest: ");
  const greedy = opened().memory;
  const list = bytesOf({ messageRequest: { case: "listServices", value: "" } });
  for (let index = 0; index < REFLECTION_REPLIES_MAX; index++) greedy.send(list);
  expect(greedy.status).toBeUndefined();
  greedy.send(list);
  expect(greedy.status).toBe(`RESOURCE_EXHAUSTED ${REFLECTION_REPLIES_MAX} replies wait to be read: read them first`);
  expect([nothing, malformed, greedy].flatMap(({ defects }) => defects)).toEqual([]);
});

test("a drain ends what is open and refuses what comes", () => {
  const { reflection, memory } = opened();
  reflection.drain();
  expect(memory.status).toBe("UNAVAILABLE the server is draining");
  expect(openMemoryRpc(reflection.methods().get(PATHS[1]!)).status).toBe("UNAVAILABLE the server is draining");
});

// The client of the command line against a stand-in gRPC server.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from "@grpc/grpc-js";
import {
  ModelInferRequestSchema,
  ModelInferResponseSchema,
  ModelMetadataRequestSchema,
  ModelMetadataResponseSchema,
  RepositoryIndexResponseSchema,
} from "../../proto/gen/grpc_service_pb.ts";
import { serverTarget } from "./server-target.ts";

const TIMEOUT_MS = 10_000;

let server: Server;
let address: string;

/** A method of a stand-in server: bytes in, bytes or a status out. */
function unary(path: string, answer: (request: Buffer) => Uint8Array | { code: number; details: string } | undefined) {
  const raw = { requestDeserialize: (bytes: Buffer) => bytes, responseSerialize: (bytes: Buffer) => bytes };
  const definition = { path, requestStream: false, responseStream: false, ...raw } as const;
  const identity = { requestSerialize: raw.responseSerialize, responseDeserialize: raw.requestDeserialize };
  const handle = (call: ServerUnaryCall<Buffer, Buffer>, reply: sendUnaryData<Buffer>) => {
    const result = answer(call.request);
    if (result instanceof Uint8Array) reply(null, Buffer.from(result));
    else if (result) reply(result);
  };
  return { definition: { ...definition, ...identity }, handle };
}

beforeAll(async () => {
  server = new Server();
  const metadata = unary("/inference.GRPCInferenceService/ModelMetadata", (bytes) => {
    const { name } = fromBinary(ModelMetadataRequestSchema, bytes);
    if (name === "silent") return undefined;
    if (name !== "echo") return { code: 5, details: `unknown model '${name}'` };
    const tensor = { name: "x", datatype: "INT32", shape: [-1n, 2n] };
    return toBinary(
      ModelMetadataResponseSchema,
      create(ModelMetadataResponseSchema, { inputs: [tensor], outputs: [tensor] }),
    );
  });
  const infer = unary("/inference.GRPCInferenceService/ModelInfer", (bytes) => {
    const { inputs, outputs, rawInputContents } = fromBinary(ModelInferRequestSchema, bytes);
    const { datatype, shape } = inputs[0]!;
    const reply = {
      outputs: [{ name: outputs[0]?.name ?? "x", datatype, shape }],
      rawOutputContents: rawInputContents,
    };
    return toBinary(ModelInferResponseSchema, create(ModelInferResponseSchema, reply));
  });
  const index = unary("/inference.GRPCInferenceService/RepositoryIndex", () =>
    toBinary(
      RepositoryIndexResponseSchema,
      create(RepositoryIndexResponseSchema, { models: [{ name: "echo" }, { name: "silent" }] }),
    ),
  );
  server.addService(
    { ModelMetadata: metadata.definition, ModelInfer: infer.definition, RepositoryIndex: index.definition },
    { ModelMetadata: metadata.handle, ModelInfer: infer.handle, RepositoryIndex: index.handle },
  );
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    ),
  );
  address = `127.0.0.1:${port}`;
});
afterAll(() => server.forceShutdown());

test("metadata and tensors go there and back", async () => {
  await using target = serverTarget(address, "echo", TIMEOUT_MS);
  expect((await target.describe()).inputs).toEqual([{ name: "x", dtype: "i32", shape: [-1, 2] }]);
  const bytes = Uint8Array.of(1, 0, 0, 0, 2, 0, 0, 0);
  const [output] = await target.infer([{ name: "x", dtype: "i32", shape: [1, 2], bytes }], ["y"]);
  expect(output).toEqual({ name: "y", dtype: "i32", shape: [1, 2], bytes });
});

test("a status becomes the error of its code, with the server's words", async () => {
  await using target = serverTarget(address, "nope", TIMEOUT_MS);
  const error = await target.describe().catch((thrown) => thrown);
  expect(error).toMatchObject({ code: "NOT_FOUND", message: `${address}: NOT_FOUND: unknown model 'nope'` });
});

test("a misspelt model is told the nearest one of the server", async () => {
  await using target = serverTarget(address, "ecco", TIMEOUT_MS);
  const message = `${address}: NOT_FOUND: unknown model 'ecco', did you mean 'echo'?`;
  expect(await target.describe().catch((thrown) => thrown)).toMatchObject({ message });
});

test("a server that does not answer costs the timeout, no more", async () => {
  await using target = serverTarget(address, "silent", 50);
  expect(await target.describe().catch((thrown) => thrown)).toMatchObject({ code: "DEADLINE_EXCEEDED" });
});

test("nobody at the address is UNAVAILABLE, in words", async () => {
  const other = new Server();
  const port = await new Promise<number>((resolve) =>
    other.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (_, bound) => resolve(bound)),
  );
  other.forceShutdown();
  await using target = serverTarget(`127.0.0.1:${port}`, "echo", TIMEOUT_MS);
  const message = `nothing listens on 127.0.0.1:${port}: is the server running?`;
  expect(await target.describe().catch((thrown) => thrown)).toMatchObject({ code: "UNAVAILABLE", message });
});

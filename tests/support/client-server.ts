// A running server on the repository of client-bundles.ts, a client of it, and requests in short.
//
// Started once a test file, disposed after it. Used by tests/e2e/clients*.test.ts.

import { create, type Message, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { Client, credentials, type ServiceError, status } from "@grpc/grpc-js";
import { type InferParameterSchema, ModelInferRequestSchema } from "../../proto/gen/grpc_service_pb.ts";
import { clientRepository } from "./client-bundles.ts";
import { bytesTensor, type KserveClient, kserveClient } from "./kserve-client.ts";
import { startWorker, type TestWorker } from "./worker.ts";

/** With a cold cache every model is compiled first. */
export const START_MS_MAX = 180_000;

const MODEL_INFER = "/inference.GRPCInferenceService/ModelInfer";

// Fields alone, without the messages that would do as well: these can be spread.
export type Request = Exclude<MessageInitShape<typeof ModelInferRequestSchema>, Message>;
type Parameter = Exclude<MessageInitShape<typeof InferParameterSchema>, Message>;

export interface ClientServer extends AsyncDisposable {
  readonly worker: TestWorker;
  readonly client: KserveClient;
  /** ModelInfer with bytes that need not be a message, on the connection that cancellable() uses. */
  inferBytes(request: Uint8Array): Promise<Uint8Array>;
  /** Begins a ModelInfer; the function returned cancels it and gives its failure. */
  cancellable(request: Request): () => Promise<string>;
}

export async function startClientServer(flags: readonly string[] = []): Promise<ClientServer> {
  const opened = new AsyncDisposableStack();
  const repository = opened.use(clientRepository());
  const worker = opened.use(await startWorker({ repository: repository.directory, flags }));
  const client = opened.use(kserveClient(worker.address));
  const bare = opened.adopt(new Client(worker.address, credentials.createInsecure()), (channel) => channel.close());
  const asIs = (bytes: Buffer) => bytes;
  const begin = (request: Uint8Array) => {
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
    const call = bare.makeUnaryRequest(MODEL_INFER, asIs, asIs, Buffer.from(request), (error, reply) =>
      error ? reject(error) : resolve(reply!),
    );
    return { call, promise };
  };
  return {
    worker,
    client,
    inferBytes: (request) => begin(request).promise,
    cancellable(request) {
      const { call, promise } = begin(toBinary(ModelInferRequestSchema, create(ModelInferRequestSchema, request)));
      const outcome = failure(promise);
      return () => {
        call.cancel();
        return outcome;
      };
    },
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

/** The status of a call that must fail, as `CODE: details`. */
export function failure(call: Promise<unknown>): Promise<string> {
  return call.then(
    () => "OK",
    ({ code, details }: ServiceError) => `${status[code]}: ${details}`,
  );
}

export function tensor(name: string, datatype: string, ...shape: (number | bigint)[]) {
  return { name, datatype, shape: shape.map(BigInt) };
}

/** A request to the model `strings`. */
export function strings(...words: string[]): Request {
  const inputs = [tensor("text", "BYTES", words.length)];
  return { modelName: "strings", inputs, rawInputContents: [bytesTensor(words)] };
}

export function int64(value: number): Parameter {
  return { parameterChoice: { case: "int64Param", value: BigInt(value) } };
}

export function text(value: string): Parameter {
  return { parameterChoice: { case: "stringParam", value } };
}

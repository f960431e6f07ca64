// A KServe V2 server as seen by the command line, through grpc-js: an implementation of gRPC that is not our own.
//
// One channel, unary calls with a deadline. A status that comes back becomes the ServerError of that code. Used by
// infer.ts (serverTarget) and ready.ts.

import {
  create,
  type DescMessage,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { Client, credentials, type ServiceError } from "@grpc/grpc-js";
import { GRPCInferenceService } from "../../proto/gen/grpc_service_pb.ts";
import { systemClock } from "../base/clock.ts";
import { ServerError, STATUS_CODES, type StatusCode } from "../base/errors.ts";
import { didYouMean } from "../base/nearest.ts";
import { fromWire, wireName } from "../tensor/dtype.ts";
import type { InferTarget } from "./infer-target.ts";
import type { TensorInfo, TensorValue } from "./tensor-input.ts";

const CODE_NAMES = new Map(Object.entries(STATUS_CODES).map(([name, code]) => [code as number, name as StatusCode]));

/** A connection to a server; nothing is sent before the first call. */
export interface ServerConnection extends Disposable {
  isReady(): Promise<boolean>;
  /** The server's ModelMetadata and ModelInfer of one model. */
  target(model: string): InferTarget;
}

/** `address` is host:port; each call may take `timeoutMs`. */
export function connect(address: string, timeoutMs: number): ServerConnection {
  const client = new Client(address, credentials.createInsecure(), {
    "grpc.max_receive_message_length": -1,
    "grpc.max_send_message_length": -1,
  });
  const { serverReady, modelMetadata, modelInfer, repositoryIndex } = GRPCInferenceService.method;
  const call = caller(client, address, timeoutMs);
  const target = (model: string): InferTarget => ({
    async describe() {
      const { inputs, outputs } = await call(modelMetadata, { name: model }).catch(async (thrown: unknown) => {
        if (!(thrown instanceof ServerError) || thrown.code !== "NOT_FOUND") throw thrown;
        // Not every server of the protocol lists its models.
        const names = await call(repositoryIndex, {}).then(
          ({ models }) => models.map(({ name }) => name),
          () => [],
        );
        throw new ServerError(thrown.code, `${thrown.message}${didYouMean(model, names)}`);
      });
      return { inputs: inputs.map(tensorInfo), outputs: outputs.map(tensorInfo) };
    },
    async infer(inputs, outputs) {
      const reply = await call(modelInfer, {
        modelName: model,
        inputs: inputs.map(({ name, dtype, shape }) => ({
          name,
          datatype: wireName(dtype)!,
          shape: shape.map(BigInt),
        })),
        outputs: outputs.map((name) => ({ name })),
        rawInputContents: inputs.map(({ bytes }) => bytes),
      });
      return reply.outputs.map((output, index): TensorValue => {
        const bytes = reply.rawOutputContents[index];
        if (!bytes) throw new ServerError("INTERNAL", `${address} sent output '${output.name}' without raw contents`);
        return { ...tensorInfo(output), bytes };
      });
    },
    [Symbol.asyncDispose]: async () => client.close(),
  });
  return {
    isReady: async () => (await call(serverReady, {})).ready,
    target,
    [Symbol.dispose]: () => client.close(),
  };
}

/** One model of the server at `address`; closes the connection with itself. */
export function serverTarget(address: string, model: string, timeoutMs: number): InferTarget {
  return connect(address, timeoutMs).target(model);
}

interface Method<I extends DescMessage, O extends DescMessage> {
  readonly name: string;
  readonly input: I;
  readonly output: O;
}

function caller(client: Client, address: string, timeoutMs: number) {
  return <I extends DescMessage, O extends DescMessage>(
    method: Method<I, O>,
    request: MessageInitShape<I>,
  ): Promise<MessageShape<O>> => {
    const { promise, resolve, reject } = Promise.withResolvers<MessageShape<O>>();
    client.makeUnaryRequest<MessageShape<I>, MessageShape<O>>(
      `/${GRPCInferenceService.typeName}/${method.name}`,
      (message) => Buffer.from(toBinary(method.input, message)),
      (bytes) => fromBinary(method.output, bytes),
      create(method.input, request),
      { deadline: systemClock.wallMs() + timeoutMs },
      (error, reply) => (error ? reject(serverError(error, address)) : resolve(reply!)),
    );
    return promise;
  };
}

function serverError(error: ServiceError, address: string): ServerError {
  const code = CODE_NAMES.get(error.code) ?? "UNKNOWN";
  // grpc-js's own words, which name neither the address nor what to do.
  if (code === "UNAVAILABLE" && error.details.includes("ECONNREFUSED")) {
    return new ServerError(code, `nothing listens on ${address}: is the server running?`);
  }
  if (code === "UNAVAILABLE" && error.details.startsWith("Name resolution failed")) {
    return new ServerError(code, `${address}: no such host`);
  }
  return new ServerError(code, `${address}: ${code}: ${error.details}`);
}

function tensorInfo({ name, datatype, shape }: { name: string; datatype: string; shape: bigint[] }): TensorInfo {
  const dtype = fromWire(datatype);
  if (!dtype) throw new ServerError("UNIMPLEMENTED", `tensor '${name}' has the unknown datatype '${datatype}'`);
  return { name, dtype, shape: shape.map(Number) };
}

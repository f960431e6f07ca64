// A stock KServe client for tests: grpc-js under the generated messages, nothing of the server's own wire code.
//
// One method for every unary RPC; a failed call rejects with grpc-js's ServiceError, whose `code` tests compare with
// grpc.status. Used by e2e tests.

import { create, fromBinary, type MessageInitShape, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { type CallOptions, type ChannelOptions, Client, credentials, Metadata, type ServiceError } from "@grpc/grpc-js";
import { GRPCInferenceService } from "../../proto/gen/grpc_service_pb.ts";

type Methods = typeof GRPCInferenceService.method;
type UnaryName = { [Name in keyof Methods]: Methods[Name]["methodKind"] extends "unary" ? Name : never }[keyof Methods];

export interface KserveClient extends Disposable {
  /** Calls an RPC by its generated name, e.g. `call("modelInfer", {modelName: "simple", ...})`. */
  call<Name extends UnaryName>(
    name: Name,
    request: MessageInitShape<Methods[Name]["input"]>,
    options?: CallOptions & { metadata?: Metadata },
  ): Promise<MessageShape<Methods[Name]["output"]>>;
}

/** A client of the server at `address` ("host:port"). Messages may have any size unless `channel` says otherwise. */
export function kserveClient(address: string, channel: ChannelOptions = {}): KserveClient {
  const client = new Client(address, credentials.createInsecure(), {
    "grpc.max_receive_message_length": -1,
    "grpc.max_send_message_length": -1,
    ...channel,
  });
  return {
    call(name, request, { metadata = new Metadata(), ...options } = {}) {
      const { input, output, name: method } = GRPCInferenceService.method[name];
      return new Promise((resolve, reject) => {
        client.makeUnaryRequest(
          `/${GRPCInferenceService.typeName}/${method}`,
          (message) => Buffer.from(toBinary(input, message)),
          // Not as the Buffer it is: its slice() doesn't copy, which is not what a test means by it.
          (bytes) => fromBinary(output, new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)),
          create(input, request as MessageInitShape<typeof input>),
          metadata,
          options,
          (error: ServiceError | null, reply) => (error ? reject(error) : resolve(reply as never)),
        );
      });
    },
    [Symbol.dispose]: () => client.close(),
  };
}

/** The bytes of a BYTES tensor: each element's length as u32, little-endian, then its bytes. */
export function bytesTensor(elements: readonly (string | Uint8Array)[]): Uint8Array<ArrayBuffer> {
  const parts = elements.map((element) => (typeof element === "string" ? new TextEncoder().encode(element) : element));
  const tensor = new Uint8Array(parts.reduce((total, part) => total + 4 + part.length, 0));
  const view = new DataView(tensor.buffer);
  let at = 0;
  for (const part of parts) {
    view.setUint32(at, part.length, true);
    tensor.set(part, at + 4);
    at += 4 + part.length;
  }
  return tensor;
}

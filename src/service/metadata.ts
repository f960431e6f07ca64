// ServerMetadata and ModelMetadata: who this is, and what a model's tensors look like to a client.
//
// Shapes are in wire order with -1 wherever any extent is accepted. Versions of a model do not exist here, so there are
// none. Used by kserve.ts.

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ModelMetadataResponseSchema, ServerMetadataResponseSchema } from "../../proto/gen/grpc_service_pb.ts";
import { VERSION } from "../base/version.ts";
import type { DeviceInfo } from "../device/device.ts";
import type { Model } from "../model/model.ts";
import { wireName } from "../tensor/dtype.ts";
import { type TensorSpec, wireShape } from "../tensor/signature.ts";

// The names that Triton gives to those of its extensions that are served here.
const EXTENSIONS = ["model_configuration", "parameters", "statistics"];

export function serverMetadata(): MessageInitShape<typeof ServerMetadataResponseSchema> {
  return { name: "xlaserver", version: VERSION, extensions: EXTENSIONS };
}

export function modelMetadata(model: Model, device: DeviceInfo): MessageInitShape<typeof ModelMetadataResponseSchema> {
  const { inputs, outputs } = model.bundle.client;
  return {
    name: model.name,
    platform: device.platform,
    inputs: inputs.map(tensorMetadata),
    outputs: outputs.map(tensorMetadata),
  };
}

function tensorMetadata(spec: TensorSpec) {
  // A dtype without a name in KServe's protocol can't reach a client: its model is told so when it is called.
  return { name: spec.name, datatype: wireName(spec.dtype) ?? spec.dtype, shape: wireShape(spec).map(BigInt) };
}

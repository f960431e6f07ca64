// ModelConfig: a model as Triton would configure it, for clients that size their requests by it (perf_analyzer).
//
// Triton leaves the batch axis out of dims where max_batch_size > 0, which says that every tensor has it in front and
// something behind it. A model that is not so, or is never coalesced, has max_batch_size 0 and its whole shapes.
// Used by kserve.ts.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { type ModelConfigSchema, ModelInstanceGroup_Kind } from "../../proto/gen/model_config_pb.ts";
import type { DeviceInfo } from "../device/device.ts";
import { type Model, maxBatchSize } from "../model/model.ts";
import { DTYPES } from "../tensor/dtype.ts";
import { type TensorSpec, wireShape } from "../tensor/signature.ts";

const NS_PER_US = 1000;

export function modelConfig(model: Model, device: DeviceInfo): MessageInitShape<typeof ModelConfigSchema> {
  const { inputs, outputs } = model.bundle.client;
  const { rules } = model.queue;
  const tensors = [...inputs, ...outputs];
  const batched = rules.coalescable && tensors.every(({ batchAxis, axes }) => batchAxis === 0 && axes.length > 1);
  const tensor = (spec: TensorSpec) => ({
    name: spec.name,
    dataType: DTYPES[spec.dtype].triton,
    dims: wireShape(spec)
      .slice(batched ? 1 : 0)
      .map(BigInt),
  });
  const cpu = device.platform === "cpu";
  return {
    name: model.name,
    platform: device.platform,
    backend: "xla",
    versionPolicy: { policyChoice: { case: "latest", value: { numVersions: 1 } } },
    maxBatchSize: batched ? maxBatchSize(model) : 0,
    input: inputs.map(tensor),
    output: outputs.map(tensor),
    ...(rules.coalescable && {
      schedulingChoice: {
        case: "dynamicBatching",
        value: {
          preferredBatchSize: model.bundle.compiledBatchSizes.filter((size) => size <= rules.maxBatchSize),
          maxQueueDelayMicroseconds: BigInt(Math.round(rules.maxQueueDelayNs / NS_PER_US)),
        },
      },
    }),
    instanceGroup: [
      {
        name: model.name,
        count: 1,
        kind: cpu ? ModelInstanceGroup_Kind.CPU : ModelInstanceGroup_Kind.GPU,
        gpus: cpu ? [] : [device.ordinal],
      },
    ],
    modelTransactionPolicy: { decoupled: false },
  };
}

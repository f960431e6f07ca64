// ModelStatistics: a model's counters in Triton's shape, which its clients and load tools difference over time.
//
// compute_infer is the device's time, compute_input assembly and upload, compute_output the download; hooks are in none. Only batch
// sizes that were executed are listed; their input and output parts are not told apart, so they stay unset.
// Used by kserve.ts.

import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  ModelStatisticsResponseSchema,
  ModelStatisticsSchema,
  StatisticDurationSchema,
} from "../../proto/gen/grpc_service_pb.ts";
import type { Model } from "../model/model.ts";
import type { Registry } from "../model/registry.ts";
import type { Duration } from "../model/statistics.ts";

/** The statistics of the model `name`, or of every ready model for "". Errors: NOT_FOUND, UNAVAILABLE. */
export function modelStatistics(
  registry: Registry,
  name: string,
): MessageInitShape<typeof ModelStatisticsResponseSchema> {
  const models = name === "" ? registry.models() : [registry.bind(name)];
  return { modelStats: models.map(statisticsOf) };
}

// A model has no versions here, but perf_analyzer reads this field as a number and dies of an empty one.
const VERSION = "1";

function statisticsOf({ name, statistics }: Model): MessageInitShape<typeof ModelStatisticsSchema> {
  const batches = [...statistics.byBatchSize].sort(([a], [b]) => a - b);
  return {
    name,
    version: VERSION,
    lastInference: whole(statistics.lastInferenceMs),
    inferenceCount: whole(statistics.inferences),
    executionCount: whole(statistics.dispatches),
    inferenceStats: {
      success: duration(statistics.success),
      fail: duration(statistics.failure),
      queue: duration(statistics.queue),
      computeInput: duration(statistics.input),
      computeInfer: duration(statistics.execute),
      computeOutput: duration(statistics.output),
      cacheHit: {},
      cacheMiss: {},
    },
    batchStats: batches.map(([batchSize, computeInfer]) => ({
      batchSize: whole(batchSize),
      computeInfer: duration(computeInfer),
    })),
  };
}

function duration({ count, ns }: Duration): MessageInitShape<typeof StatisticDurationSchema> {
  return { count: whole(count), ns: whole(ns) };
}

/** Counters are numbers and may have grown by fractions of a nanosecond. */
function whole(value: number): bigint {
  return BigInt(Math.round(value));
}

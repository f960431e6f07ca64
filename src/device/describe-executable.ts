// The signature, memory and cost of a compiled executable, in the server's words.
//
// The signature is the one that XLA compiled, for text and bytecode modules alike. A type that the server
// can't carry, or a layout that is not row-major, is refused here, before anything depends on it. Used by loader.ts.

import type { PjrtExecutable } from "../../ffi/pjrt/executable.ts";
import type { ArrayShape } from "../../ffi/pjrt/program-shape.ts";
import { ServerError } from "../base/errors.ts";
import { fromXla } from "../tensor/dtype.ts";
import { formatShape } from "../tensor/shape.ts";
import type { TensorType } from "../tensor/signature.ts";
import type { ExecutableDescription } from "./executable-cache.ts";

/** Errors: INVALID_ARGUMENT, naming the parameter or result that can't be served; UNIMPLEMENTED for a mute plugin. */
export function describeExecutable(executable: PjrtExecutable, label: string): ExecutableDescription {
  const shape = executable.programShape();
  if (!shape)
    throw new ServerError("UNIMPLEMENTED", `${label}: the plugin does not show the signature of what it compiled`);
  const stats = executable.memoryStats();
  const flops = executable.costAnalysis()?.flops;
  return {
    parameters: shape.parameters.map((parameter, index) => tensorType(parameter, `${label}: parameter ${index}`)),
    results: shape.results.map((result, index) => tensorType(result, `${label}: result ${index}`)),
    memory: {
      argumentBytes: stats.argumentBytes,
      outputBytes: stats.outputBytes,
      temporaryBytes: stats.tempBytes,
      generatedCodeBytes: stats.generatedCodeBytes,
    },
    flops: typeof flops === "number" ? flops : undefined,
  };
}

function tensorType({ type, dims, rowMajor }: ArrayShape, what: string): TensorType {
  const dtype = fromXla(type);
  if (!dtype) throw new ServerError("INVALID_ARGUMENT", `${what} has XLA element type ${type}, which can't be served`);
  if (!rowMajor) {
    throw new ServerError("INVALID_ARGUMENT", `${what}, ${dtype}${formatShape(dims)}, is not laid out row-major`);
  }
  return { dtype, shape: dims };
}

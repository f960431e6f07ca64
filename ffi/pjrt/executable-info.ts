// What a compiled executable says of itself: name, signature, memory, cost.
//
// PJRT answers these on a PJRT_Executable, a second handle that is taken for each question and given back. Cost analysis
// is optional: newer CPU plugins lack it. Used by executable.ts and by the signature check, memory planning and `inspect`.

import { type Address, addressOf, int32sAt, int64sAt, NULL, textAt } from "../memory.ts";
import type { PjrtApi } from "./api.ts";
import { PjrtError } from "./error.ts";
import type { Donatable } from "./launch.ts";
import { type AttributeValue, decodeNamedValues } from "./named-values.ts";
import { type ProgramShape, readProgramShape } from "./program-shape.ts";
import { Program } from "./structs.ts";

/** Bytes that the compiler planned, on the device and, where it is another memory, on the host. */
export interface CompiledMemoryStats {
  readonly generatedCodeBytes: number;
  readonly argumentBytes: number;
  readonly outputBytes: number;
  /** How much of the arguments is reused for outputs. */
  readonly aliasBytes: number;
  readonly tempBytes: number;
  readonly hostGeneratedCodeBytes: number;
  readonly hostArgumentBytes: number;
  readonly hostOutputBytes: number;
  readonly hostAliasBytes: number;
  readonly hostTempBytes: number;
  readonly peakBytes: number;
}

/** The type (PJRT_Buffer_Type) and dims of one output. */
export interface OutputShape {
  readonly type: number;
  readonly dims: readonly number[];
}

/** Runs `ask` with the PJRT_Executable behind the PJRT_LoadedExecutable `loaded`. */
export function withExecutable<T>(api: PjrtApi, loaded: Address, ask: (executable: Address) => T): T {
  const get = api.calls.PJRT_LoadedExecutable_GetExecutable;
  get.args.loaded_executable = loaded;
  get.run();
  const { executable } = get.args;
  try {
    return ask(executable);
  } finally {
    const destroy = api.calls.PJRT_Executable_Destroy;
    destroy.args.executable = executable;
    destroy.run();
  }
}

export function executableName(api: PjrtApi, executable: Address): string {
  const call = api.calls.PJRT_Executable_Name;
  call.args.executable = executable;
  call.run();
  return textAt(call.args.executable_name, call.args.executable_name_size);
}

/** Equal for programs that were compiled from equal inputs; undefined where the platform has none. */
export function executableFingerprint(api: PjrtApi, executable: Address): string | undefined {
  const call = api.calls.PJRT_Executable_Fingerprint;
  call.args.executable = executable;
  if (!answers(() => call.run())) return undefined;
  return textAt(call.args.executable_fingerprint, call.args.executable_fingerprint_size);
}

export function outputCount(api: PjrtApi, executable: Address): number {
  const call = api.calls.PJRT_Executable_NumOutputs;
  call.args.executable = executable;
  call.run();
  return call.args.num_outputs;
}

export function outputShapes(api: PjrtApi, executable: Address): OutputShape[] {
  const types = api.calls.PJRT_Executable_OutputElementTypes;
  types.args.executable = executable;
  types.run();
  const count = types.args.num_output_types;
  const dimensions = api.calls.PJRT_Executable_OutputDimensions;
  dimensions.args.executable = executable;
  dimensions.args.num_outputs = count;
  dimensions.run();
  const ranks = int64sAt(dimensions.args.dim_sizes, count);
  const dims = int64sAt(
    dimensions.args.dims,
    ranks.reduce((sum, rank) => sum + rank, 0),
  );
  let start = 0;
  return int32sAt(types.args.output_types, count).map((type, index) => {
    const end = start + ranks[index]!;
    const shape = { type, dims: dims.slice(start, end) };
    start = end;
    return shape;
  });
}

export function compiledMemoryStats(api: PjrtApi, executable: Address): CompiledMemoryStats {
  const call = api.calls.PJRT_Executable_GetCompiledMemoryStats;
  const { args } = call;
  args.executable = executable;
  call.run();
  return {
    generatedCodeBytes: args.generated_code_size_in_bytes,
    argumentBytes: args.argument_size_in_bytes,
    outputBytes: args.output_size_in_bytes,
    aliasBytes: args.alias_size_in_bytes,
    tempBytes: args.temp_size_in_bytes,
    hostGeneratedCodeBytes: args.host_generated_code_size_in_bytes,
    hostArgumentBytes: args.host_argument_size_in_bytes,
    hostOutputBytes: args.host_output_size_in_bytes,
    hostAliasBytes: args.host_alias_size_in_bytes,
    hostTempBytes: args.host_temp_size_in_bytes,
    peakBytes: args.peak_memory_in_bytes,
  };
}

export function generatedCodeBytes(api: PjrtApi, executable: Address): number {
  const call = api.calls.PJRT_Executable_SizeOfGeneratedCodeInBytes;
  call.args.executable = executable;
  call.run();
  return call.args.size_in_bytes;
}

/** Properties such as "flops" and "bytes accessed"; undefined where the platform has none. */
export function costAnalysis(api: PjrtApi, executable: Address): Record<string, AttributeValue> | undefined {
  const call = api.calls.PJRT_Executable_GetCostAnalysis;
  call.args.executable = executable;
  if (!answers(() => call.run())) return undefined;
  return decodeNamedValues(call.args.properties, call.args.num_properties);
}

/** The entry signature of the optimized program; undefined where the plugin does not show it. */
export function programShape(api: PjrtApi, executable: Address): ProgramShape | undefined {
  const program = Program.allocate();
  program.struct_size = Program.size;
  const call = api.calls.PJRT_Executable_OptimizedProgram;
  call.args.executable = executable;
  call.args.program = program.address;
  // The first call, with a null code pointer, sets the size; the second fills the code.
  if (!answers(() => call.run())) return undefined;
  const code = new Uint8Array(program.code_size);
  program.code = addressOf(code);
  call.run();
  program.code = NULL;
  if (textAt(program.format, program.format_size) !== "hlo_with_config") return undefined;
  return readProgramShape(code);
}

/** The parameters that the program may overwrite. */
export function donatableParameters(api: PjrtApi, executable: Address): Donatable {
  return programShape(api, executable)?.donatable ?? "unknown";
}

/** Runs a call that a platform may not have: false when it answers UNIMPLEMENTED. */
function answers(run: () => void): boolean {
  try {
    run();
    return true;
  } catch (error) {
    if (error instanceof PjrtError && error.code === "UNIMPLEMENTED") return false;
    throw error;
  }
}

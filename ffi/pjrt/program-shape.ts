// The entry signature of a compiled program: shapes of its parameters and results, and which parameters it may overwrite.
//
// Read from the HloModuleProtoWithConfig that PJRT_Executable_OptimizedProgram gives, for text and bytecode modules alike;
// field numbers are those of xla/service/hlo.proto and xla/xla_data.proto. Used by executable.ts and, through it, by the
// signature check.

import { ServerError } from "../../src/base/errors.ts";
import { protoIntegers, protoMessages } from "../protobuf.ts";

const HLO_MODULE_OF_MODULE_WITH_CONFIG = 1;
const HLO_MODULE = { hostProgramShape: 4, inputOutputAlias: 8, bufferDonor: 18 } as const;
const PROGRAM_SHAPE = { parameters: 1, result: 2 } as const;
const SHAPE = { elementType: 2, dimensions: 3, tupleShapes: 4, layout: 5 } as const;
const LAYOUT_MINOR_TO_MAJOR = 1;
const ALIAS = { entries: 1, parameterNumber: 2 } as const;
const DONOR = { entries: 1, parameterNumber: 1 } as const;
const PRIMITIVE_TYPE_TUPLE = 13;

export interface ArrayShape {
  /** xla.PrimitiveType, e.g. 11 for F32. */
  readonly type: number;
  readonly dims: readonly number[];
  /** Whether the layout is dense major to minor (row-major), the only one that hosts write and read here. */
  readonly rowMajor: boolean;
}

export interface ProgramShape {
  readonly parameters: readonly ArrayShape[];
  /** One array, or the elements of the result tuple. */
  readonly results: readonly ArrayShape[];
  /** Parameters that the program may overwrite with a result, ascending. */
  readonly donatable: readonly number[];
}

/** Reads the entry signature of an `hlo_with_config` program. Throws DATA_LOSS when it is not one. */
export function readProgramShape(hloWithConfig: Uint8Array): ProgramShape {
  const module = required(hloWithConfig, HLO_MODULE_OF_MODULE_WITH_CONFIG, "hlo_module");
  const shape = required(module, HLO_MODULE.hostProgramShape, "host_program_shape");
  return {
    parameters: protoMessages(shape, PROGRAM_SHAPE.parameters).map(readArrayShape),
    results: readResults(required(shape, PROGRAM_SHAPE.result, "result")),
    donatable: readDonatable(module),
  };
}

function required(message: Uint8Array, field: number, name: string): Uint8Array {
  const [value] = protoMessages(message, field);
  if (!value) throw new ServerError("DATA_LOSS", `the compiled program has no ${name}`);
  return value;
}

function readResults(result: Uint8Array): ArrayShape[] {
  const isTuple = elementType(result) === PRIMITIVE_TYPE_TUPLE;
  return isTuple ? protoMessages(result, SHAPE.tupleShapes).map(readArrayShape) : [readArrayShape(result)];
}

function elementType(shape: Uint8Array): number {
  return protoIntegers(shape, SHAPE.elementType)[0] ?? 0;
}

function readArrayShape(shape: Uint8Array): ArrayShape {
  const dims = protoIntegers(shape, SHAPE.dimensions);
  const [layout] = protoMessages(shape, SHAPE.layout);
  // No layout, or an empty one, means the default, which is row-major.
  const minorToMajor = layout ? protoIntegers(layout, LAYOUT_MINOR_TO_MAJOR) : [];
  const rowMajor = minorToMajor.every((dimension, index) => dimension === minorToMajor.length - 1 - index);
  return { type: elementType(shape), dims, rowMajor };
}

function readDonatable(module: Uint8Array): number[] {
  const parameters = new Set<number>();
  const collect = (config: number, entries: number, parameterNumber: number) => {
    for (const proto of protoMessages(module, config)) {
      // Proto3 leaves a zero out: an entry without a number means parameter 0.
      for (const entry of protoMessages(proto, entries)) parameters.add(protoIntegers(entry, parameterNumber)[0] ?? 0);
    }
  };
  collect(HLO_MODULE.inputOutputAlias, ALIAS.entries, ALIAS.parameterNumber);
  collect(HLO_MODULE.bufferDonor, DONOR.entries, DONOR.parameterNumber);
  return [...parameters].sort((a, b) => a - b);
}

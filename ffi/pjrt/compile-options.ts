// CompileOptionsProto by hand: one replica, one partition, and XLA flags for one compilation.
//
// Flags go through `env_option_overrides` (field 7 of xla/pjrt/proto/compile_options.proto), never through the environment,
// where an unknown one would abort the process; here it is a clear status. The bytes are deterministic, so that they can be
// part of a cache key. Used by whoever compiles.

import { ProtoWriter } from "../protobuf.ts";

/** A flag's value. An enum list wants XLA's full names in a string, e.g. `LIBRARY_FUSION_TYPE_DOT`. */
export type XlaOptionValue = string | boolean | number;

// Field numbers of CompileOptionsProto, ExecutableBuildOptionsProto, and OptionOverrideProto.
const EXECUTABLE_BUILD_OPTIONS = 3;
const NUM_REPLICAS = 4;
const NUM_PARTITIONS = 5;
const ENV_OPTION_OVERRIDES = 7;
const MAP_KEY = 1;
const MAP_VALUE = 2;
const OVERRIDE_STRING = 1;
const OVERRIDE_BOOL = 2;

/** Options for one device, with `xlaOptions` (e.g. `{ xla_cpu_use_onednn: true }`) in order of name. */
export function encodeCompileOptions(xlaOptions: Readonly<Record<string, XlaOptionValue>> = {}): Uint8Array {
  const build = new ProtoWriter().varint(NUM_REPLICAS, 1).varint(NUM_PARTITIONS, 1);
  const options = new ProtoWriter().bytes(EXECUTABLE_BUILD_OPTIONS, build.finish());
  for (const name of Object.keys(xlaOptions).sort()) {
    const entry = new ProtoWriter().text(MAP_KEY, name).bytes(MAP_VALUE, encodeOverride(xlaOptions[name]!));
    options.bytes(ENV_OPTION_OVERRIDES, entry.finish());
  }
  return options.finish();
}

function encodeOverride(value: XlaOptionValue): Uint8Array {
  const override = new ProtoWriter();
  if (typeof value === "boolean") return override.varint(OVERRIDE_BOOL, value ? 1 : 0).finish();
  // XLA refuses an int64 for a floating-point flag, and a manifest does not tell 1 from 1.0; it parses text for both.
  return override.text(OVERRIDE_STRING, String(value)).finish();
}

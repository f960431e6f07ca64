// PJRT_NamedValue lists: create options into C, attributes and cost properties out of it.
//
// A number going in is an int64 when it is an integer; a float, which CUDA's `memory_fraction` is, says so with {float}.
// Used by client.ts, device.ts, executable.ts and plugin.ts.

import type { FieldsOf, Struct } from "../layout.ts";
import { type Address, type Arena, int64sAt, NULL, offsetAddress, textAt } from "../memory.ts";
import { NamedValue } from "./structs.ts";

/** What a create option may be. Integers are int64; `{float}` is a 32-bit float. */
export type OptionValue = string | boolean | number | readonly number[] | { readonly float: number };

/** What an attribute may be: int64 and float as numbers, an int64 list as an array. */
export type AttributeValue = string | boolean | number | readonly number[];

const TYPE = { string: 0, int64: 1, int64List: 2, float: 3, bool: 4 } as const;

/** Lays `options` out for C; what it points at lives in `arena`. */
export function encodeNamedValues(
  options: Readonly<Record<string, OptionValue>>,
  arena: Arena,
): { address: Address; count: number } {
  const entries = Object.entries(options);
  const structs = NamedValue.allocateArray(entries.length);
  for (const [index, [name, value]] of entries.entries()) {
    const struct = structs[index]!;
    const text = arena.text(name);
    struct.struct_size = NamedValue.size;
    struct.name = text.address;
    struct.name_size = text.byteLength;
    struct.value_size = 1;
    if (typeof value === "string") {
      const string = arena.text(value);
      struct.type = TYPE.string;
      struct.string_value = string.address;
      struct.value_size = string.byteLength;
    } else if (typeof value === "boolean") {
      struct.type = TYPE.bool;
      struct.bool_value = value;
    } else if (typeof value === "number") {
      struct.type = TYPE.int64;
      struct.int64_value = value;
    } else if ("float" in value) {
      struct.type = TYPE.float;
      struct.float_value = value.float;
    } else {
      struct.type = TYPE.int64List;
      struct.int64_array_value = arena.int64s(value);
      struct.value_size = value.length;
    }
  }
  const first = structs[0];
  return { address: first ? arena.hold(first) : NULL, count: entries.length };
}

/** Reads `count` named values of the plugin, by name. */
export function decodeNamedValues(address: Address, count: number): Record<string, AttributeValue> {
  const values: Record<string, AttributeValue> = {};
  for (let index = 0, next = address; index < count; index++) {
    const struct = NamedValue.at(next);
    values[textAt(struct.name, struct.name_size)] = decodeValue(struct);
    // The plugin's own struct may be longer than the one we know: its size says where the next one lies.
    next = offsetAddress(next, Math.max(struct.struct_size, NamedValue.stride));
  }
  return values;
}

function decodeValue(struct: Struct<FieldsOf<typeof NamedValue>>): AttributeValue {
  switch (struct.type) {
    case TYPE.string:
      return textAt(struct.string_value, struct.value_size);
    case TYPE.int64:
      return struct.int64_value;
    case TYPE.int64List:
      return int64sAt(struct.int64_array_value, struct.value_size);
    case TYPE.float:
      return struct.float_value;
    case TYPE.bool:
      return struct.bool_value;
    default:
      throw new Error(`PJRT_NamedValue_Type ${struct.type} is not known`);
  }
}

// The structs of the PJRT C API that are not arguments of a function, field for field as pjrt_c_api.h 0.81 has them.
//
// tests/contract/pjrt-layout.test.ts compiles that header and compares every offset and size with these rows. Nothing
// newer than 0.81 is used, so each struct is what every plugin from 0.81 on understands. Used inside ffi/pjrt.

import { layout } from "../layout.ts";

/** The oldest PJRT C API that has every field and function named in this folder. */
export const OLDEST_API_MINOR = 81;

export const ExtensionBase = layout("PJRT_Extension_Base", {
  struct_size: "size",
  type: "i32",
  next: "pointer",
});

export const ApiVersion = layout("PJRT_Api_Version", {
  struct_size: "size",
  extension_start: "pointer",
  major_version: "i32",
  minor_version: "i32",
});

/** The head of PJRT_Api; the function pointers follow it in the order of API_FUNCTIONS (function-order.ts). */
export const ApiHead = layout("PJRT_Api", {
  struct_size: "size",
  extension_start: "pointer",
  pjrt_api_version: ApiVersion,
});

export const NamedValue = layout("PJRT_NamedValue", {
  struct_size: "size",
  extension_start: "pointer",
  name: "pointer",
  name_size: "size",
  type: "i32",
  string_value: "pointer",
  int64_value: { over: "string_value", kind: "i64" },
  int64_array_value: { over: "string_value", kind: "pointer" },
  float_value: { over: "string_value", kind: "f32" },
  bool_value: { over: "string_value", kind: "bool" },
  value_size: "size",
});

export const Program = layout("PJRT_Program", {
  struct_size: "size",
  extension_start: "pointer",
  code: "pointer",
  code_size: "size",
  format: "pointer",
  format_size: "size",
});

export const ShapeSpec = layout("PJRT_ShapeSpec", {
  struct_size: "size",
  extension_start: "pointer",
  dims: "pointer",
  num_dims: "size",
  element_type: "i32",
});

export const ExecuteOptions = layout("PJRT_ExecuteOptions", {
  struct_size: "size",
  extension_start: "pointer",
  send_callbacks: "pointer",
  recv_callbacks: "pointer",
  num_send_ops: "size",
  num_recv_ops: "size",
  launch_id: "i32",
  non_donatable_input_indices: "pointer",
  num_non_donatable_input_indices: "size",
  context: "pointer",
  call_location: "pointer",
  num_tasks: "size",
  task_ids: "pointer",
  incarnation_ids: "pointer",
});

// The functions of the PJRT C API: the Args struct of each one that we call.
//
// One row a field, as pjrt_c_api.h 0.81 has them (checked by tests/contract/pjrt-layout.test.ts). Every Args struct opens
// with struct_size and extension_start, which `args` adds. Fields that the plugin writes are marked "out", as in the
// header. Used by api.ts, which makes a typed call of each row.

import { type Fields, type FieldsOf, type Layout, layout } from "../layout.ts";

type ArgsFields<F extends Fields> = { readonly struct_size: "size"; readonly extension_start: "pointer" } & F;

function args<const F extends Fields>(functionName: string, fields: F): Layout<ArgsFields<F>> {
  return layout<ArgsFields<F>>(`${functionName}_Args`, {
    struct_size: "size",
    extension_start: "pointer",
    ...fields,
  } as ArgsFields<F>);
}

const PLUGIN_CALLS = {
  PJRT_Error_Destroy: args("PJRT_Error_Destroy", { error: "pointer" }),
  PJRT_Error_Message: args("PJRT_Error_Message", {
    error: "pointer",
    message: "pointer", // out
    message_size: "size", // out
  }),
  PJRT_Error_GetCode: args("PJRT_Error_GetCode", {
    error: "pointer",
    code: "i32", // out
  }),
  PJRT_Plugin_Initialize: args("PJRT_Plugin_Initialize", {}),
  PJRT_Plugin_Attributes: args("PJRT_Plugin_Attributes", {
    attributes: "pointer", // out
    num_attributes: "size", // out
  }),
} as const;

const EVENT_CALLS = {
  PJRT_Event_Destroy: args("PJRT_Event_Destroy", { event: "pointer" }),
  PJRT_Event_IsReady: args("PJRT_Event_IsReady", {
    event: "pointer",
    is_ready: "bool", // out
  }),
  PJRT_Event_Error: args("PJRT_Event_Error", { event: "pointer" }),
  PJRT_Event_Await: args("PJRT_Event_Await", { event: "pointer" }),
  PJRT_Event_OnReady: args("PJRT_Event_OnReady", {
    event: "pointer",
    callback: "pointer",
    user_arg: "pointer",
  }),
} as const;

const CLIENT_CALLS = {
  PJRT_Client_Create: args("PJRT_Client_Create", {
    create_options: "pointer",
    num_options: "size",
    kv_get_callback: "pointer",
    kv_get_user_arg: "pointer",
    kv_put_callback: "pointer",
    kv_put_user_arg: "pointer",
    client: "pointer", // out
    kv_try_get_callback: "pointer",
    kv_try_get_user_arg: "pointer",
  }),
  PJRT_Client_Destroy: args("PJRT_Client_Destroy", { client: "pointer" }),
  PJRT_Client_PlatformName: args("PJRT_Client_PlatformName", {
    client: "pointer",
    platform_name: "pointer", // out
    platform_name_size: "size", // out
  }),
  PJRT_Client_PlatformVersion: args("PJRT_Client_PlatformVersion", {
    client: "pointer",
    platform_version: "pointer", // out
    platform_version_size: "size", // out
  }),
  PJRT_Client_AddressableDevices: args("PJRT_Client_AddressableDevices", {
    client: "pointer",
    addressable_devices: "pointer", // out
    num_addressable_devices: "size", // out
  }),
  PJRT_Client_Compile: args("PJRT_Client_Compile", {
    client: "pointer",
    program: "pointer",
    compile_options: "pointer",
    compile_options_size: "size",
    executable: "pointer", // out
  }),
  PJRT_Client_DmaMap: args("PJRT_Client_DmaMap", {
    client: "pointer",
    data: "pointer",
    size: "size",
  }),
  PJRT_Client_DmaUnmap: args("PJRT_Client_DmaUnmap", {
    client: "pointer",
    data: "pointer",
  }),
} as const;

const DEVICE_CALLS = {
  PJRT_Device_GetDescription: args("PJRT_Device_GetDescription", {
    device: "pointer",
    device_description: "pointer", // out
  }),
  PJRT_Device_LocalHardwareId: args("PJRT_Device_LocalHardwareId", {
    device: "pointer",
    local_hardware_id: "i32", // out
  }),
  PJRT_Device_DefaultMemory: args("PJRT_Device_DefaultMemory", {
    device: "pointer",
    memory: "pointer", // out
  }),
  PJRT_Device_AddressableMemories: args("PJRT_Device_AddressableMemories", {
    device: "pointer",
    memories: "pointer", // out
    num_memories: "size", // out
  }),
  PJRT_Device_MemoryStats: args("PJRT_Device_MemoryStats", {
    device: "pointer",
    // All that follows is out; but for the first, a value counts only when its _is_set is true.
    bytes_in_use: "i64",
    peak_bytes_in_use: "i64",
    peak_bytes_in_use_is_set: "bool",
    num_allocs: "i64",
    num_allocs_is_set: "bool",
    largest_alloc_size: "i64",
    largest_alloc_size_is_set: "bool",
    bytes_limit: "i64",
    bytes_limit_is_set: "bool",
    bytes_reserved: "i64",
    bytes_reserved_is_set: "bool",
    peak_bytes_reserved: "i64",
    peak_bytes_reserved_is_set: "bool",
    bytes_reservable_limit: "i64",
    bytes_reservable_limit_is_set: "bool",
    largest_free_block_bytes: "i64",
    largest_free_block_bytes_is_set: "bool",
    pool_bytes: "i64",
    pool_bytes_is_set: "bool",
    peak_pool_bytes: "i64",
    peak_pool_bytes_is_set: "bool",
  }),
  PJRT_DeviceDescription_Id: args("PJRT_DeviceDescription_Id", {
    device_description: "pointer",
    id: "i32", // out
  }),
  PJRT_DeviceDescription_Kind: args("PJRT_DeviceDescription_Kind", {
    device_description: "pointer",
    device_kind: "pointer", // out
    device_kind_size: "size", // out
  }),
  PJRT_DeviceDescription_DebugString: args("PJRT_DeviceDescription_DebugString", {
    device_description: "pointer",
    debug_string: "pointer", // out
    debug_string_size: "size", // out
  }),
  PJRT_DeviceDescription_Attributes: args("PJRT_DeviceDescription_Attributes", {
    device_description: "pointer",
    num_attributes: "size", // out
    attributes: "pointer", // out
  }),
  PJRT_Memory_Kind: args("PJRT_Memory_Kind", {
    memory: "pointer",
    kind: "pointer", // out
    kind_size: "size", // out
  }),
} as const;

const EXECUTABLE_CALLS = {
  PJRT_Executable_Destroy: args("PJRT_Executable_Destroy", { executable: "pointer" }),
  PJRT_Executable_Name: args("PJRT_Executable_Name", {
    executable: "pointer",
    executable_name: "pointer", // out
    executable_name_size: "size", // out
  }),
  PJRT_Executable_NumOutputs: args("PJRT_Executable_NumOutputs", {
    executable: "pointer",
    num_outputs: "size", // out
  }),
  PJRT_Executable_SizeOfGeneratedCodeInBytes: args("PJRT_Executable_SizeOfGeneratedCodeInBytes", {
    executable: "pointer",
    size_in_bytes: "i64", // out
  }),
  PJRT_Executable_Fingerprint: args("PJRT_Executable_Fingerprint", {
    executable: "pointer",
    executable_fingerprint: "pointer", // out
    executable_fingerprint_size: "size", // out
  }),
  PJRT_Executable_GetCostAnalysis: args("PJRT_Executable_GetCostAnalysis", {
    executable: "pointer",
    num_properties: "size", // out
    properties: "pointer", // out
  }),
  PJRT_Executable_GetCompiledMemoryStats: args("PJRT_Executable_GetCompiledMemoryStats", {
    executable: "pointer",
    // All that follows is out.
    generated_code_size_in_bytes: "i64",
    argument_size_in_bytes: "i64",
    output_size_in_bytes: "i64",
    alias_size_in_bytes: "i64",
    temp_size_in_bytes: "i64",
    host_generated_code_size_in_bytes: "i64",
    host_argument_size_in_bytes: "i64",
    host_output_size_in_bytes: "i64",
    host_alias_size_in_bytes: "i64",
    host_temp_size_in_bytes: "i64",
    peak_memory_in_bytes: "i64",
  }),
  PJRT_Executable_OutputElementTypes: args("PJRT_Executable_OutputElementTypes", {
    executable: "pointer",
    output_types: "pointer", // out
    num_output_types: "size", // out
  }),
  PJRT_Executable_OutputDimensions: args("PJRT_Executable_OutputDimensions", {
    executable: "pointer",
    num_outputs: "size",
    dims: "pointer", // out
    dim_sizes: "pointer", // out
  }),
  PJRT_Executable_OptimizedProgram: args("PJRT_Executable_OptimizedProgram", {
    executable: "pointer",
    program: "pointer", // in and out
  }),
  PJRT_Executable_Serialize: args("PJRT_Executable_Serialize", {
    executable: "pointer",
    serialized_bytes: "pointer", // out
    serialized_bytes_size: "size", // out
    serialized_executable: "pointer", // out
    serialized_executable_deleter: "pointer", // out
  }),
  PJRT_Executable_DeserializeAndLoad: args("PJRT_Executable_DeserializeAndLoad", {
    client: "pointer",
    serialized_executable: "pointer",
    serialized_executable_size: "size",
    loaded_executable: "pointer", // out
    overridden_serialized_compile_options: "pointer",
    overridden_serialized_compile_options_size: "size",
  }),
  PJRT_LoadedExecutable_Destroy: args("PJRT_LoadedExecutable_Destroy", { executable: "pointer" }),
  PJRT_LoadedExecutable_GetExecutable: args("PJRT_LoadedExecutable_GetExecutable", {
    loaded_executable: "pointer",
    executable: "pointer", // out
  }),
  PJRT_LoadedExecutable_Execute: args("PJRT_LoadedExecutable_Execute", {
    executable: "pointer",
    options: "pointer",
    argument_lists: "pointer",
    num_devices: "size",
    num_args: "size",
    output_lists: "pointer", // in and out
    device_complete_events: "pointer", // in and out
    execute_device: "pointer",
  }),
} as const;

const BUFFER_CALLS = {
  PJRT_Client_BufferFromHostBuffer: args("PJRT_Client_BufferFromHostBuffer", {
    client: "pointer",
    data: "pointer",
    type: "i32",
    dims: "pointer",
    num_dims: "size",
    byte_strides: "pointer",
    num_byte_strides: "size",
    host_buffer_semantics: "i32",
    device: "pointer",
    memory: "pointer",
    device_layout: "pointer",
    done_with_host_buffer: "pointer", // out
    buffer: "pointer", // out
  }),
  PJRT_Client_CreateViewOfDeviceBuffer: args("PJRT_Client_CreateViewOfDeviceBuffer", {
    client: "pointer",
    device_buffer_ptr: "pointer",
    dims: "pointer",
    num_dims: "size",
    element_type: "i32",
    layout: "pointer",
    device: "pointer",
    on_delete_callback: "pointer",
    on_delete_callback_arg: "pointer",
    stream: "size",
    buffer: "pointer", // out
    memory: "pointer",
  }),
  PJRT_Buffer_Destroy: args("PJRT_Buffer_Destroy", { buffer: "pointer" }),
  PJRT_Buffer_ElementType: args("PJRT_Buffer_ElementType", {
    buffer: "pointer",
    type: "i32", // out
  }),
  PJRT_Buffer_Dimensions: args("PJRT_Buffer_Dimensions", {
    buffer: "pointer",
    dims: "pointer", // out
    num_dims: "size", // out
  }),
  PJRT_Buffer_OnDeviceSizeInBytes: args("PJRT_Buffer_OnDeviceSizeInBytes", {
    buffer: "pointer",
    on_device_size_in_bytes: "size", // out
  }),
  PJRT_Buffer_ToHostBuffer: args("PJRT_Buffer_ToHostBuffer", {
    src: "pointer",
    host_layout: "pointer",
    dst: "pointer",
    dst_size: "size", // in and out
    event: "pointer", // out
  }),
  PJRT_Buffer_CopyRawToHost: args("PJRT_Buffer_CopyRawToHost", {
    buffer: "pointer",
    dst: "pointer",
    offset: "i64",
    transfer_size: "i64",
    event: "pointer", // out
  }),
  PJRT_Buffer_ReadyEvent: args("PJRT_Buffer_ReadyEvent", {
    buffer: "pointer",
    event: "pointer", // out
  }),
  PJRT_Buffer_IncreaseExternalReferenceCount: args("PJRT_Buffer_IncreaseExternalReferenceCount", {
    buffer: "pointer",
  }),
  PJRT_Buffer_DecreaseExternalReferenceCount: args("PJRT_Buffer_DecreaseExternalReferenceCount", {
    buffer: "pointer",
  }),
  PJRT_Buffer_OpaqueDeviceMemoryDataPointer: args("PJRT_Buffer_OpaqueDeviceMemoryDataPointer", {
    buffer: "pointer",
    device_memory_ptr: "pointer", // out
  }),
} as const;

const TRANSFER_CALLS = {
  PJRT_Client_CreateBuffersForAsyncHostToDevice: args("PJRT_Client_CreateBuffersForAsyncHostToDevice", {
    client: "pointer",
    shape_specs: "pointer",
    num_shape_specs: "size",
    device_layouts: "pointer",
    num_device_layouts: "size",
    memory: "pointer",
    transfer_manager: "pointer", // out
  }),
  PJRT_AsyncHostToDeviceTransferManager_Destroy: args("PJRT_AsyncHostToDeviceTransferManager_Destroy", {
    transfer_manager: "pointer",
  }),
  PJRT_AsyncHostToDeviceTransferManager_BufferCount: args("PJRT_AsyncHostToDeviceTransferManager_BufferCount", {
    transfer_manager: "pointer",
    buffer_count: "size", // out
  }),
  PJRT_AsyncHostToDeviceTransferManager_BufferSize: args("PJRT_AsyncHostToDeviceTransferManager_BufferSize", {
    transfer_manager: "pointer",
    buffer_index: "i32",
    buffer_size: "size", // out
  }),
  PJRT_AsyncHostToDeviceTransferManager_TransferData: args("PJRT_AsyncHostToDeviceTransferManager_TransferData", {
    transfer_manager: "pointer",
    buffer_index: "i32",
    data: "pointer",
    offset: "i64",
    transfer_size: "i64",
    is_last_transfer: "bool",
    done_with_h2d_transfer: "pointer", // out
  }),
  PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer: args("PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer", {
    transfer_manager: "pointer",
    buffer_index: "i32",
    buffer_out: "pointer", // out
  }),
} as const;

/** Every function that we call, with the layout of its Args. */
export const CALLS = {
  ...PLUGIN_CALLS,
  ...EVENT_CALLS,
  ...CLIENT_CALLS,
  ...DEVICE_CALLS,
  ...EXECUTABLE_CALLS,
  ...BUFFER_CALLS,
  ...TRANSFER_CALLS,
};

export type CallName = keyof typeof CALLS;

/** The fields of a call's Args. */
export type CallFields<N extends CallName> = FieldsOf<(typeof CALLS)[N]>;

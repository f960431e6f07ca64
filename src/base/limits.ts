// Every bound of the server that is not in Config, each with its reason. Units stand last.
//
// A bound that a user may want to move belongs in config/; one that only keeps us safe, or follows from a measurement,
// belongs here. Used by every room.

// -- device/

/** One slab is viewed as one ArrayBuffer, and the engine's largest is 4 GiB. */
export const SLAB_BYTES_MAX = 2 ** 32 - 4096;

/** How long slab memory lies idle before the system gets it back: longer than a pause between bursts of requests. */
export const SLAB_IDLE_NS = 10e9;

/** A temporary of a writer that is older belongs to a dead one: extracting takes about 2 s, on a slow disk a minute. */
export const EXTRACTION_MS_MAX = 10 * 60_000;

/** Compiled executables on the disk; MiniLM's nine modules take about 30 MB. */
export const EXECUTABLE_CACHE_BYTES_MAX = 8 * 2 ** 30;

/** How long a helper may take to load and describe a plugin before `plugins` gives it up: CUDA's needs a few seconds. */
export const PLUGIN_PROBE_NS = 30e9;

// -- wire/

/** Strings of an inference request (names, ids, string parameters): far above any name, and cheap to refuse. */
export const WIRE_STRING_BYTES_MAX = 2 ** 20;

/** Inputs, outputs and raw contents of a request, each: an empty one takes 2 bytes on the wire, some 200 here. */
export const REQUEST_TENSORS_MAX = 1024;

/** Parameters of a request or of one of its tensors. */
export const REQUEST_PARAMETERS_MAX = 256;

/** Axes of a tensor: XLA has fewer, NumPy 64. */
export const TENSOR_RANK_MAX = 64;

/** Times that one tensor's `contents` may be given in pieces, which protobuf merges. */
export const CONTENTS_PIECES_MAX = 16;

/** A tensor made from typed contents, where a byte on the wire can become eight: as much as a request may carry raw. */
export const TYPED_TENSOR_BYTES_MAX = 512 * 2 ** 20;

/** Unknown groups inside each other: the bound of protobuf's own parsers. */
export const PROTOBUF_GROUP_DEPTH_MAX = 100;

/** A protobuf message ends below 2 GiB. */
export const PROTOBUF_MESSAGE_BYTES_MAX = 2 ** 31 - 1;

/** Replies up to this many tensor bytes go out in one piece with their header: copying them costs less than a view. */
export const REPLY_COPY_BYTES_MAX = 4096;

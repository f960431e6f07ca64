// Every bound of the server that is not in Config, each with its reason. Units stand last.
//
// A bound that a user may want to move belongs in config/; one that only keeps us safe, or follows from a measurement,
// belongs here. Used by every room.

// -- base/

/** A string in a log line: longer than any name or path that a person reads. */
export const LOG_STRING_CHARACTERS_MAX = 1024;

/** An error in a log line, with its causes: a compiler's message may have some lines. */
export const LOG_ERROR_CHARACTERS_MAX = 4096;

/** Log lines that wait for a reader who has stalled: some thousand; more are counted and lost. */
export const LOG_QUEUE_CHARACTERS_MAX = 2 ** 20;

/** What a slow reader of the log gets at the process's end to take the lines that wait for it. */
export const LOG_FLUSH_NS_MAX = 1e9;

// -- device/

/** One slab is viewed as one ArrayBuffer, and the engine's largest is 4 GiB. */
export const SLAB_BYTES_MAX = 2 ** 32 - 4096;

/** How long slab memory lies idle before the system gets it back: longer than a pause between bursts of requests. */
export const SLAB_IDLE_NS = 10e9;

/** How long nothing runs before the heap's free memory goes back to the system: a request in a burst must not find it gone. */
export const HEAP_IDLE_NS = 1e9;

/** A temporary of a writer that is older belongs to a dead one: extracting takes about 2 s, on a slow disk a minute. */
export const EXTRACTION_MS_MAX = 10 * 60_000;

/** Compiled executables on the disk; MiniLM's nine modules take about 30 MB. */
export const EXECUTABLE_CACHE_BYTES_MAX = 8 * 2 ** 30;

/** Weights go to the device in pieces, since the inputs of a batch wait for the piece under way: 8 MiB take 0.4 ms at 20 GB/s. */
export const WEIGHT_CHUNK_BYTES = 8 * 2 ** 20;

/** Pieces of weights on the way at once: one on the link, one behind it so that the link never idles. */
export const WEIGHT_CHUNKS_IN_FLIGHT = 2;

/** How long the compile helper waits for more modules: a start of its own costs 0.2 s, and idle it holds 100 MB. */
export const COMPILE_LINGER_NS = 2e9;

/** Compile helpers at once: each keeps a client and its threads, and XLA itself compiles on several. */
export const COMPILE_HELPERS_MAX = 4;

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

/**
 * A tensor made from typed lists of integers or strings: they are decoded one by one, some 10 ns each, on the main
 * thread, and a byte on the wire can become eight. Larger ones must come raw.
 */
export const TYPED_TENSOR_BYTES_MAX = 16 * 2 ** 20;

/** Elements of a BYTES tensor: each becomes an object of some 100 bytes in front of a hook. */
export const STRING_ELEMENTS_MAX = 2 ** 20;

/** Fields of a request, repeated and unknown ones included, tensor elements not: each costs some 50 ns. */
export const REQUEST_FIELDS_MAX = 2 ** 20;

/** Unknown groups inside each other: the bound of protobuf's own parsers. */
export const PROTOBUF_GROUP_DEPTH_MAX = 100;

/** A protobuf message ends below 2 GiB. */
export const PROTOBUF_MESSAGE_BYTES_MAX = 2 ** 31 - 1;

/** Replies up to this many tensor bytes go out in one piece with their header: copying them costs less than a view. */
export const REPLY_COPY_BYTES_MAX = 4096;

// -- YAML: manifests and node files

/** A manifest that lists ten thousand weights by name has about 600 kB; the parser takes half a second for this. */
export const YAML_BYTES_MAX = 2 ** 20;

/** Aliases of anchors: people use a handful; each costs the parser a walk over the document. */
export const YAML_ALIASES_MAX = 100;

/** Lists and mappings inside each other: ours go five deep, `provenance` is free. */
export const YAML_DEPTH_MAX = 32;

/** A text that is not YAML at all fails on every line: the first findings say enough. */
export const YAML_ISSUES_MAX = 20;

// -- bundle/

/** Findings of one bundle that are reported; a damaged weights file could have a hundred thousand. */
export const BUNDLE_ISSUES_MAX = 100;

/** The safetensors format's own bound of its header. */
export const SAFETENSORS_HEADER_BYTES_MAX = 100_000_000;

/** Characters of a model's name: it is a directory's name, a label of metrics and a part of URLs. */
export const MODEL_NAME_LENGTH_MAX = 128;

/** Rows of one compiled batch: far beyond what an accelerator gains from. */
export const COMPILED_BATCH_SIZE_MAX = 2 ** 20;

/** Waiting to fill a batch for longer than a minute is a mistake of unit. */
export const MAX_QUEUE_DELAY_US_MAX = 60_000_000;

/** Priorities are queues, walked in order. */
export const PRIORITY_LEVELS_MAX = 100;

/** What a hook may take unless its bundle says otherwise: longer than any client waits for a small model. */
export const HOOK_TIME_LIMIT_MS_DEFAULT = 10_000;

/** A hook that takes more than an hour is a job, not a request. */
export const HOOK_TIME_LIMIT_MS_MAX = 3_600_000;

/** Enough of a module to tell text from bytecode from garbage. */
export const MODULE_HEAD_BYTES = 4096;

// -- net/

/** HTTP/2 streams that one connection may have open. */
export const STREAMS_PER_CONNECTION_MAX = 1000;

/** Receive windows of a stream and of a connection: enough for 1 GB/s at 30 ms of round trip. */
export const RECEIVE_WINDOW_BYTES = 32 * 2 ** 20;

/** A gRPC message, either way, as in the system that users come from. */
export const MESSAGE_BYTES_MAX = 512 * 2 ** 20;

/** A request's header list, as RFC 9113 counts it: the bound of C++ gRPC servers. */
export const HEADER_LIST_BYTES_MAX = 16 * 2 ** 10;

/** HEADERS and CONTINUATION frames of one header block: a block within the bound above needs five of 16 KiB. */
export const HEADER_BLOCK_FRAMES_MAX = 32;

/** The frame size that we allow peers: larger frames mean fewer headers between the bytes of a tensor. */
export const FRAME_BYTES_MAX = 2 ** 20;

/** Unwritten bytes of one connection; replies beyond it wait in their own memory. Some 16 frames of the default size. */
export const CONNECTION_OUTPUT_BYTES_MAX = 256 * 2 ** 10;

/** A stream's share of a connection's output before the next stream has its turn. */
export const OUTPUT_TURN_BYTES = 64 * 2 ** 10;

/**
 * Frames that cost us work and carry nothing (resets, pings, settings, empty data): this many at once, then so many a
 * second. A burst of cancellations of every open stream, and pings with every read, stay far below.
 */
export const IDLE_FRAMES_BURST_MAX = 10_000;
export const IDLE_FRAMES_PER_SECOND_MAX = 2_000;

/** Replies that wait on a connection are looked at this often: far above a round trip. */
export const STALL_NS = 100e6;

/** A connection that takes less of its replies between two looks has stalled: 640 KB/s, below it copies are cheap. */
export const STALL_BYTES = 64 * 2 ** 10;

/**
 * A connection must take some of what waits for it in this time: SEND_PROGRESS_BYTES, or one part in
 * SEND_PROGRESS_PARTS where that is more, so that the largest reply is gone within eleven minutes. Else it is ended.
 */
export const SEND_PROGRESS_NS = 10e9;
export const SEND_PROGRESS_BYTES = 64 * 2 ** 10;
export const SEND_PROGRESS_PARTS = 64;

/** Where replies fill half of what they may, a connection that made no such progress for this long makes room. */
export const SEND_PRESSURE_NS = 2e9;

/** A message up to this size is control or small inference: no budget refuses it while larger ones could make room. */
export const SMALL_MESSAGE_BYTES = 64 * 2 ** 10;

/** What small replies may take beyond the budget of all replies: those of a thousand streams. */
export const SMALL_REPLIES_BYTES_MAX = 64 * 2 ** 20;

/** How often connections and messages under way are looked at for what they wait for. */
export const PEER_LOOK_NS = 1e9;

/** A request under way brings this much in this time, or its rest: 2 KB/s. Else its call is ended. */
export const RECEIVE_PROGRESS_NS = 30e9;
export const RECEIVE_PROGRESS_BYTES = 64 * 2 ** 10;

/** What a connection gets for its TLS handshake: far above two round trips. */
export const HANDSHAKE_NS_MAX = 10e9;

/** What a connection gets to send its preface and SETTINGS, and then its first request: far above any handshake. */
export const FIRST_REQUEST_NS_MAX = 10e9;

/** A header block gets this long from its first frame to its last. */
export const HEADER_BLOCK_NS_MAX = 30e9;

/** A connection without a stream is closed after this long; a gRPC client opens another when it needs one. */
export const CONNECTION_IDLE_NS_MAX = 300e9;

/**
 * Descriptors that connections leave to the rest of the process: plugins, bundles, hooks, the metrics port. A process
 * without connections has some 60.
 */
export const DESCRIPTORS_RESERVED = 128;

/** How often it is logged that connections are turned away. */
export const CROWDED_LOG_NS = 60e9;

/** What one stalled connection may hold in copied replies; beyond it replies wait in the memory they came in. */
export const STALLED_REPLY_BYTES_MAX = 16 * 2 ** 20;

/** What a closed connection gets to read its last frames before it is cut off. */
export const CONNECTION_LINGER_NS = 1e9;

/** What zlib reads or makes on the main thread: 0.2 ms of its time; larger messages go to the thread pool. */
export const COMPRESSION_INLINE_BYTES_MAX = 64 * 2 ** 10;

/** A step of zlib's work on the thread pool: 1 ms; between two of them a call that has ended is noticed. */
export const COMPRESSION_PIECE_BYTES = 256 * 2 ** 10;

/** Messages that are compressed or inflated on the thread pool at once, some 600 KB each; the others wait their turn. */
export const COMPRESSION_TURNS_MAX = 4;

/** A smaller reply goes out as it is: its headers are as large as what compression saves. */
export const COMPRESSED_REPLY_BYTES_MIN = 1024;

/** What a message that waits behind another one's inflation counts beside its bytes: its objects. */
export const QUEUED_MESSAGE_BYTES = 256;

/** Bytes of a status message on the wire; clients refuse header lists above 8 KiB or so. */
export const STATUS_MESSAGE_BYTES_MAX = 4096;

// -- service/

/** Requests other than ModelInfer: a name or two. */
export const CONTROL_REQUEST_BYTES_MAX = 2 ** 20;

/** Health watches open at once: one a client that balances its load, some 1.1 KB each (10,000 measured). */
export const HEALTH_WATCHES_MAX = 10_000;

/** Reflection calls open at once: people and tools, which end them when they have read the schema. */
export const REFLECTIONS_MAX = 1000;

/** Replies that wait on one reflection call, some 30 KB each: clients ask one question after the other. */
export const REFLECTION_REPLIES_MAX = 100;

/** Calls that the transport has ended are looked for from this many open ones on. */
export const STANDING_CALLS_SWEPT_MIN = 64;

// -- hooks/

/**
 * How often running hooks are looked at: a hook may overrun its time limit by as much, and one that fills memory at a
 * few GB/s gets some 100 MB beyond its bound. A look costs about 20 us.
 */
export const HOOK_WATCH_NS = 20e6;

/** Lines a second that a hook thread may print, or a bundle's failures may add to the log: what a person can read. */
export const HOOK_LINES_PER_SECOND_MAX = 50;

/** Characters of one printed text or one message of a hook: the wire cuts a status message at as much. */
export const HOOK_TEXT_CHARACTERS_MAX = 4096;

/** Frames of a hook's stack in the log: where it was thrown and how it came there. */
export const HOOK_STACK_FRAMES_MAX = 8;

/** Findings of one failed import that are told. */
export const HOOK_FAULTS_MAX = 20;

// -- worker/

/** Slabs hold the batches with the device and the replies that clients have not read yet; more waits its turn. */
export const SLAB_POOL_BYTES_MAX = 2 ** 31;

/** Bundles that load side by side: enough to keep the compile helpers busy, few enough to let the ports answer. */
export const BUNDLE_LOADS_MAX = 4;

/** What models, hooks and device get to go after the drain: unloading takes milliseconds, a batch under way its time. */
export const CLOSE_NS_MAX = 5e9;

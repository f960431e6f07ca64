// Every bound of the server that is not in Config, each with its reason. Units stand last.
//
// A bound that a user may want to move belongs in config/; one that only keeps us safe, or follows from a measurement,
// belongs here. Used by every room.

// -- device/

/** One slab is viewed as one ArrayBuffer, and the engine's largest is 4 GiB. */
export const SLAB_BYTES_MAX = 2 ** 32 - 4096;

/** How long slab memory lies idle before the system gets it back: longer than a pause between bursts of requests. */
export const SLAB_IDLE_NS = 10e9;

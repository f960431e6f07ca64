// The C heap's unused memory, given back to the system.
//
// glibc keeps what is freed: a model with 200 MB of temporaries leaves a process 300 MB larger. Used by device/ when a
// device has been idle; takes tens of milliseconds after large executions, so not on a thread that serves.

import { openLibrary } from "../library.ts";

const { malloc_trim } = openLibrary("libc.so.6", { malloc_trim: { args: ["u64"], returns: "i32" } });

/** Returns all free pages of the heap to the kernel. */
export function trimHeap(): void {
  malloc_trim(0);
}

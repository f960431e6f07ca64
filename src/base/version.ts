// Which build this is: version from package.json, commit baked in by build.ts.
//
// From source there is no commit to speak of. Used by cli/ and by service/ for ServerMetadata.

import { version } from "../../package.json";

declare const BUILD_COMMIT: string | undefined;

export const VERSION: string = version;

/** Abbreviated git commit, with `+` when the tree had changes; "source" when not built. */
export const COMMIT: string = typeof BUILD_COMMIT === "string" ? BUILD_COMMIT : "source";

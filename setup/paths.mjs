// Where the set-up keeps things, and nothing else. Everything that it brings lies in .deps/ or node_modules/, which git
// ignores, but for the two files of the model that it links into bundles/minilm. Used by every file of setup/.

import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The checkout's root; every command runs here. */
export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

/** A path inside the checkout, from its parts. */
export const at = (...parts) => join(ROOT, ...parts);

export const DEPS = at(".deps");
export const WHEELS = at(".deps", "wheels");
export const VENV = at(".deps", "venv");
export const GO_BIN = at(".deps", "go", "bin");
export const BUNDLES = at("bundles");
export const EXECUTABLE = at("dist", "xlaserver");

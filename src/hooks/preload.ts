// What `xlaserver test DIR` preloads into Bun's test runner, so that a bundle's tests and its model.ts find our modules.
//
// An entry point of its own: build.ts puts it into the executable, bundled, and bundle-tests.ts takes it out as text.

import { defineModules } from "./modules.ts";

defineModules();

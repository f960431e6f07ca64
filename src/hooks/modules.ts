// The modules that a model.ts may import without installing anything: "xlaserver" and "xlaserver/text".
//
// They are defined anew in each thread, since a Bun plugin belongs to the thread that made it. Used by the hook thread
// and by preload.ts.

import * as api from "../api.ts";
import * as text from "../text/index.ts";

/** Lets the modules that this thread imports from now on import ours. `onRegister` hears of each registered model. */
export function defineModules(onRegister: (hooks: api.ModelHooks) => void = () => {}): void {
  const registerModel: typeof api.registerModel = (hooks) => {
    const registered = api.registerModel(hooks);
    onRegister(registered);
    return registered;
  };
  Bun.plugin({
    name: "xlaserver",
    setup(build) {
      build.module("xlaserver", () => ({ exports: { ...api, registerModel }, loader: "object" }));
      build.module("xlaserver/text", () => ({ exports: { ...text }, loader: "object" }));
    },
  });
}

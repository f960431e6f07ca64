// ModelReady: whether a model takes requests. ServerLive and ServerReady are one line each in kserve.ts.
//
// A question about health is never answered with an error: an unknown model is not ready. Used by kserve.ts.

import type { Registry } from "../model/registry.ts";

export function modelReady(registry: Registry, name: string): boolean {
  return registry.get(name)?.state === "ready";
}

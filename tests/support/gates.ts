// Models that wait at a gate, and the gates: so a test holds a server in the middle of loading or of a request for as
// long as it looks at it, without a sleep.
//
// A gate is a file in the bundle's directory: the hook waits until it is there. Used by e2e tests.

import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { BundleRecipe, TempRepository } from "./bundles.ts";

const MANIFEST = `format_version: "3.0"
executable_inputs: [{name: x, dtype: f32, shape: nd, dims: {d: 3}}]
executable_outputs: [{name: y, dtype: f32, shape: nd, dims: {d: 3}}]
batching: {compiled_batch_sizes: [1]}
hooks: {time_limit_ms: 60000}
`;

const MODULE = "module { func.func @main(%x: tensor<1x3xf32>) -> tensor<1x3xf32> { return %x : tensor<1x3xf32> } }\n";

const gated = (hooks: string): BundleRecipe => ({
  files: { "manifest.yaml": MANIFEST, "model.b1.mlir": MODULE, "model.ts": hooks },
});

/** Returns its input, once the gate that the parameter `gate` names is open; `<gate>.reached` and `.left` say where it is. */
export const WAITS_AT_RUN = gated(`import { existsSync, writeFileSync } from "node:fs";
import { registerModel } from "xlaserver";

registerModel({
  async preprocess(inputs, { parameters, bundleDirectory, signal }) {
    const gate = bundleDirectory + "/" + parameters.gate;
    if (parameters.gate) {
      writeFileSync(gate + ".reached", "");
      while (!existsSync(gate) && !signal.aborted) await Bun.sleep(1);
      writeFileSync(gate + ".left", "");
    }
    return inputs;
  },
});
`);

/** Loads once the gate `load` is open. */
export const WAITS_AT_LOAD = gated(`import { existsSync } from "node:fs";
import { registerModel } from "xlaserver";

while (!existsSync(import.meta.dir + "/load")) await Bun.sleep(1);
registerModel({});
`);

const pathOf = (repository: TempRepository, model: string, gate: string) => join(repository.bundle(model), gate);

export function openGate(repository: TempRepository, model: string, gate: string): void {
  writeFileSync(pathOf(repository, model, gate), "");
}

/** Resolves when a request waits at the gate. */
export function gateReached(repository: TempRepository, model: string, gate: string): Promise<void> {
  return until(() => existsSync(pathOf(repository, model, `${gate}.reached`)));
}

/** Resolves when the hook that waited at the gate waits no more, whether it was opened or the request ended. */
export function gateLeft(repository: TempRepository, model: string, gate: string): Promise<void> {
  return until(() => existsSync(pathOf(repository, model, `${gate}.left`)));
}

const UNTIL_MS_MAX = 60_000;

/** Resolves when `happened` says so; asks again and again. Rejects after a minute. */
export async function until(happened: () => boolean | Promise<boolean>): Promise<void> {
  const late = AbortSignal.timeout(UNTIL_MS_MAX);
  while (!(await happened())) {
    if (late.aborted) throw new Error(`not within ${UNTIL_MS_MAX} ms: ${happened}`);
    await Bun.sleep(1);
  }
}

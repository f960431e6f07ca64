// The client's view of a model held against what will happen to its tensors: where no hook stands between, both are one.
//
// A manifest may declare client tensors of its own, but only a hook can turn one into the other; without the hook, a
// tensor that differs would reach the executable, or the client, as something else. Called by load.ts.

import type { Issue } from "../base/errors.ts";
import type { Bundle } from "../bundle/bundle.ts";
import type { HookSet } from "../hooks/pool.ts";
import { formatShape } from "../tensor/shape.ts";
import { type TensorSpec, wireShape } from "../tensor/signature.ts";

/** What is declared for clients and can't be so. */
export function checkClientView({ client, executable }: Bundle, hooks: HookSet | undefined): Issue[] {
  const issues: Issue[] = [];
  if (!hooks?.hasPreprocess) {
    const because = "as there is no preprocess hook";
    compare("client_inputs", client.inputs, executable.inputs, because, issues);
    for (const { name } of executable.inputs) {
      if (client.inputs.some((input) => input.name === name)) continue;
      issues.push({ path: "client_inputs", expected: `'${name}', ${because}`, received: namesOf(client.inputs) });
    }
  }
  if (!hooks?.hasPostprocess) {
    compare("client_outputs", client.outputs, executable.outputs, "as there is no postprocess hook", issues);
  }
  return issues;
}

function compare(
  list: string,
  declared: readonly TensorSpec[],
  real: readonly TensorSpec[],
  because: string,
  issues: Issue[],
): void {
  for (const [index, spec] of declared.entries()) {
    const twin = real.find(({ name }) => name === spec.name);
    if (twin && describe(twin) === describe(spec)) continue;
    const expected = twin ? describe(twin) : `one of the executable's (${namesOf(real)})`;
    const received = twin ? describe(spec) : `'${spec.name}'`;
    issues.push({ path: `${list}[${index}]`, expected: `${expected}, ${because}`, received });
  }
}

function describe(spec: TensorSpec): string {
  return `${spec.dtype}${formatShape(wireShape(spec))}${spec.batchAxis < 0 ? "" : `, batch axis ${spec.batchAxis}`}`;
}

function namesOf(specs: readonly TensorSpec[]): string {
  return specs.map(({ name }) => `'${name}'`).join(", ");
}

// `xlaserver infer`: one request to a server, or to a bundle in this process, from the command line.
//
// Values are parsed by the model's own metadata, so a mistake is named before anything is sent.

import { basename, resolve } from "node:path";
import { type Arguments, type Command, UsageError } from "./arguments.ts";
import { DEVICE_FLAGS } from "./device-flags.ts";
import type { InferTarget } from "./infer-target.ts";
import { JSON_FLAG, print, printJson, table, wantsJson } from "./output.ts";
import { SERVER_FLAG, serverAddress } from "./server-address.ts";
import { readInputs } from "./tensor-input.ts";
import { tensorToJson, tensorToRow } from "./tensor-output.ts";

const TIMEOUT_SECONDS = 60;

export const command: Command = {
  usage: "MODEL --input NAME=VALUE ... [flags]",
  details: `
A VALUE is JSON: 5, [1, 2], [[1.5, 2], [3, 4]], ["a text", "another"]; for BYTES plain text will do. Axes that
are missing in front become 1. @FILE reads .json, .npy, or the raw elements; for BYTES one string.

  xlaserver infer minilm --input 'texts=["a first text", "a second one"]'
  xlaserver infer --bundle bundles/simple --input INPUT0=@a.npy --input INPUT1=@b.npy`,
  words: [0, 1],
  flags: {
    input: { value: "NAME=VALUE", multiple: true, help: "A value for an input; once for each." },
    output: { value: "NAME", multiple: true, help: "Ask for this output only; may be given several times." },
    server: SERVER_FLAG,
    timeout: { value: "SECONDS", help: `How long the server may take, ${TIMEOUT_SECONDS} by default.` },
    bundle: { value: "DIR", help: "Run this bundle here instead of asking a server; the next three go with it." },
    ...DEVICE_FLAGS,
    json: JSON_FLAG,
  },
  async run(args) {
    const { model, open } = targetOf(args);
    await using target = await open();
    const { inputs } = await target.describe();
    const values = await readInputs(args.texts("input"), inputs);
    const outputs = await target.infer(values, args.texts("output"));
    if (wantsJson(args)) await printJson({ model_name: model, outputs: outputs.map(tensorToJson) });
    else await print(table(["OUTPUT", "DATATYPE", "SHAPE", "VALUES"], outputs.map(tensorToRow)));
    return 0;
  },
};

function targetOf(args: Arguments): { model: string; open: () => Promise<InferTarget> } {
  const bundle = args.text("bundle");
  const [model] = args.words;
  if (bundle !== undefined) {
    const name = basename(resolve(bundle));
    if (args.given("server")) throw new UsageError("--server and --bundle exclude each other");
    if (model !== undefined && model !== name)
      throw new UsageError(`--bundle ${bundle} is the model '${name}', not '${model}'`);
    return { model: name, open: async () => (await import("./bundle-target.ts")).bundleTarget(bundle, args) };
  }
  if (model === undefined) throw new UsageError("which model? Give its name, or --bundle DIR");
  for (const flag of Object.keys(DEVICE_FLAGS)) {
    if (args.given(flag)) throw new UsageError(`--${flag} is for --bundle only`);
  }
  const seconds = Number(args.text("timeout") ?? TIMEOUT_SECONDS);
  if (!(seconds > 0)) throw new UsageError(`--timeout: expected seconds above 0, received '${args.text("timeout")}'`);
  const open = async () => {
    const address = await serverAddress(args);
    return (await import("./server-target.ts")).serverTarget(address, model, seconds * 1000);
  };
  return { model, open };
}

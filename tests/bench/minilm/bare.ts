// The bare executable: MiniLM at batch 16 on the benchmark's own tokens, in a loop, with nothing around it.
//
// bun bare.ts BUNDLE SECONDS CACHE: prints "ready" once it runs warm, then one JSON object: rows a second.

import { join } from "node:path";
import { createLogger } from "../../../src/base/log.ts";
import { loadBundle } from "../../../src/bundle/load.ts";
import { openImage } from "../../../src/device/image.ts";
import { openDevice } from "../../../src/device/open-device.ts";
import { slabLayout } from "../../../src/device/slab.ts";
import { BertTokenizer } from "../../../src/text/index.ts";
import { SENTENCES } from "./sentences.ts";

const BATCH = 16;
const WARM_UP_MS = 1000;

const [directory = "", seconds = "5", cacheDirectory = ""] = process.argv.slice(2);
await using device = await openDevice({
  backend: "cpu",
  ordinal: 0,
  cacheDirectory,
  slabBytes: 1 << 28,
  memoryFraction: 0.9,
  preallocate: true,
  xlaOptions: {},
  threads: "inline",
  compile: "inline",
  log: createLogger({ level: "error", format: "json" }),
});
const bundle = loadBundle(directory);
const module = bundle.modules.find(({ variant, batchSize }) => variant === 0 && batchSize === BATCH)!;
using executable = await device.loadExecutable({
  label: "minilm",
  bytes: await Bun.file(module.path).bytes(),
  compileOptions: bundle.compileOptions,
});
using image = await openImage(bundle.weights, cacheDirectory);
using weights = await device.loadWeights(image);
const tokenizer = BertTokenizer.fromVocab(await Bun.file(join(directory, "vocab.txt")).text());
const tokens = tokenizer.encode(SENTENCES.slice(0, BATCH), { buckets: [32] });
const slab = await device.leaseSlab(slabLayout(executable.parameters.slice(0, 2), executable.results));
for (const [input, ids] of [tokens.inputIds, tokens.attentionMask].entries()) {
  slab.inputs[input]!.set(new Uint8Array(ids.buffer, ids.byteOffset, ids.byteLength));
}

const startMs = performance.now();
const endMs = startMs + WARM_UP_MS + Number(seconds) * 1000;
let rows = 0;
console.log("ready");
while (performance.now() < endMs) {
  await device.run(executable, weights, slab);
  if (performance.now() > startMs + WARM_UP_MS) rows += BATCH;
}
slab.release();
console.log(JSON.stringify({ rowsPerSecond: rows / Number(seconds) }));

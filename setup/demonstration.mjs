// What `npm start` shows: real sentences, sent by grpc-js with the KServe proto, and ranked by likeness to a question.
//
// A stock client on purpose: it knows nothing of this server but its protocol. The likenesses are the ones that
// PyTorch computes for these sentences, so a wrong embedding ends the demonstration with an error.

import grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { at } from "./paths.mjs";
import { SetupError } from "./run.mjs";

const QUESTION = "How do I get my money back for a broken phone?";

/** Sentences with their cosine likeness to the question, by the PyTorch model. In the order of the ranking. */
const EXPECTED = [
  ["To return a faulty device, send it in with the receipt and we refund the full price.", 0.5154],
  ["The repair of a cracked screen usually takes two working days.", 0.3961],
  ["She spoke on the phone with her mother for an hour.", 0.2247],
  ["The bank lowered the interest on savings accounts.", 0.1668],
  ["The telescope recorded light from a distant galaxy.", 0.0791],
  ["Ma commande est arrivée avec deux jours de retard.", 0.0547],
  ["Sourdough needs flour, water, salt and patience.", 0.0099],
  ["Our opening hours are nine to five on weekdays.", -0.0788],
];

// The expected values are rounded to four digits.
const TOLERANCE = 0.0002;
const DEADLINE_MS = 30_000;

/** Sends the sentences to the server at `address` ("host:port"), prints the ranking, throws if it is not the expected one. */
export async function demonstrate(address) {
  const client = kserveClient(address);
  try {
    const sentences = EXPECTED.map(([sentence]) => sentence).sort();
    const started = performance.now();
    const [question, ...embeddings] = await embed(client, [QUESTION, ...sentences]);
    const tookMs = performance.now() - started;
    const ranking = sentences
      .map((sentence, index) => ({ sentence, likeness: dot(question, embeddings[index]) }))
      .sort((a, b) => b.likeness - a.likeness);
    console.log(`\n  ${QUESTION}\n`);
    for (const { sentence, likeness } of ranking) console.log(`  ${likeness.toFixed(4).padStart(7)}  ${sentence}`);
    console.log(`\n  ${sentences.length + 1} texts in one request, ${tookMs.toFixed(0)} ms\n`);
    for (const [index, [sentence, likeness]] of EXPECTED.entries()) {
      const actual = ranking[index];
      if (actual.sentence === sentence && Math.abs(actual.likeness - likeness) <= TOLERANCE) continue;
      throw new SetupError(
        `the ranking is not the expected one: place ${index + 1} should be ${likeness} for "${sentence}". ` +
          "The embeddings are wrong: run `npm test`",
      );
    }
  } finally {
    client.close();
  }
}

function kserveClient(address) {
  const definition = loadSync("grpc_service.proto", { includeDirs: [at("proto")], keepCase: true });
  const { GRPCInferenceService } = grpc.loadPackageDefinition(definition).inference;
  return new GRPCInferenceService(address, grpc.credentials.createInsecure());
}

/** The embedding of each text: one ModelInfer with a BYTES tensor, which is lengths (u32) and bytes in turn. */
async function embed(client, texts) {
  const raw = Buffer.concat(
    texts.flatMap((text) => {
      const bytes = Buffer.from(text);
      const length = Buffer.alloc(4);
      length.writeUInt32LE(bytes.length);
      return [length, bytes];
    }),
  );
  const request = {
    model_name: "minilm",
    inputs: [{ name: "texts", datatype: "BYTES", shape: [texts.length] }],
    raw_input_contents: [raw],
  };
  const response = await new Promise((resolve, reject) => {
    const options = { deadline: Date.now() + DEADLINE_MS };
    client.ModelInfer(request, options, (error, reply) => (error ? reject(failure(error)) : resolve(reply)));
  });
  const [bytes] = response.raw_output_contents;
  const values = new Float32Array(new Uint8Array(bytes).buffer);
  const width = values.length / texts.length;
  return texts.map((_, row) => values.subarray(row * width, (row + 1) * width));
}

const failure = (error) =>
  new SetupError(`the request failed with ${grpc.status[error.code]}: ${error.details}. The server's log says more`);

/** The cosine likeness of two embeddings, which have length 1. */
function dot(a, b) {
  return a.reduce((sum, value, index) => sum + value * b[index], 0);
}

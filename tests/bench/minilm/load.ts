// The load of the MiniLM benchmark: single-text requests by grpc-js, as a process of its own.
//
// bun load.ts ADDRESS SECONDS RATE: with RATE 0, 32 requests are always in flight; else RATE requests a second are
// sent, whatever comes back. Prints one JSON object: requests a second, latencies in ms, errors.

import { create, toBinary } from "@bufbuild/protobuf";
import { Client, credentials } from "@grpc/grpc-js";
import { ModelInferRequestSchema } from "../../../proto/gen/grpc_service_pb.ts";
import { SENTENCES } from "./sentences.ts";

const CONCURRENCY = 32;
const METHOD = "/inference.GRPCInferenceService/ModelInfer";
// Counted only after this: connections are up, batches have their rhythm.
const WARM_UP_MS = 1000;

const [address = "", seconds = "5", rate = "0"] = process.argv.slice(2);
const client = new Client(address, credentials.createInsecure());
const requests = SENTENCES.map((sentence) => {
  const text = new TextEncoder().encode(sentence);
  const inputs = [{ name: "texts", datatype: "BYTES", shape: [1n], contents: { bytesContents: [text] } }];
  return Buffer.from(
    toBinary(ModelInferRequestSchema, create(ModelInferRequestSchema, { modelName: "minilm", inputs })),
  );
});

const startMs = performance.now();
const endMs = startMs + WARM_UP_MS + Number(seconds) * 1000;
const latencies: number[] = [];
let errors = 0;
let sent = 0;
let inFlight = 0;

function send(): Promise<void> {
  const request = requests[sent++ % requests.length]!;
  const sentMs = performance.now();
  inFlight++;
  return new Promise((resolve) => {
    client.makeUnaryRequest(
      METHOD,
      (bytes: Buffer) => bytes,
      (bytes) => bytes,
      request,
      (error) => {
        inFlight--;
        const nowMs = performance.now();
        if (error) errors++;
        else if (nowMs > startMs + WARM_UP_MS && nowMs < endMs) latencies.push(nowMs - sentMs);
        resolve();
      },
    );
  });
}

async function closedLoop(): Promise<void> {
  while (performance.now() < endMs) await send();
}

async function openLoop(perSecond: number): Promise<void> {
  for (let index = 0; performance.now() < endMs; index++) {
    const dueMs = startMs + (index * 1000) / perSecond;
    const waitMs = dueMs - performance.now();
    if (waitMs > 1) await new Promise((resolve) => setTimeout(resolve, waitMs));
    void send();
  }
}

if (Number(rate) > 0) await openLoop(Number(rate));
else await Promise.all(Array.from({ length: CONCURRENCY }, closedLoop));
while (inFlight > 0) await new Promise((resolve) => setTimeout(resolve, 5));
client.close();
latencies.sort((a, b) => a - b);
const quantile = (q: number) => latencies[Math.ceil(q * latencies.length) - 1] ?? Number.NaN;
console.log(
  JSON.stringify({ perSecond: latencies.length / Number(seconds), p50: quantile(0.5), p99: quantile(0.99), errors }),
);

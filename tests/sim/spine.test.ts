// Random scenarios through the production spine on the fake device: bursts, oversize requests, cancellations, timeouts,
// failing executions, slow ones. Whatever happens, each request is answered once and rightly, and nothing is kept.
//
// XLASERVER_SIM_SCENARIOS sets how many (default 150); XLASERVER_SIM_SEED replays one. A failure prints its seed.
import { expect, test } from "bun:test";
import { ServerError } from "../../src/base/errors.ts";
import { Rng } from "../../src/base/rng.ts";
import { type FakeModelRecipe, fakeServing, type Sent, values } from "../support/fake-serving.ts";

const scenarios = Number(process.env.XLASERVER_SIM_SCENARIOS ?? 150);
const replay = process.env.XLASERVER_SIM_SEED;
const EXPECTED_FAILURES = ["CANCELLED", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "INTERNAL"];

function recipes(rng: Rng): FakeModelRecipe[] {
  return Array.from({ length: 1 + rng.below(5) }, (_, index) => ({
    name: `m${index}`,
    sizes: rng.pick([[1], [1, 4], [2, 8], [1, 4, 16], [3]]),
    costNs: 1e4 * 10 ** rng.below(4),
    limits: {
      maxBatchSize: rng.chance(0.2) ? 1 + rng.below(8) : Infinity,
      maxQueueDepth: rng.chance(0.2) ? 4 : 1e6,
      maxQueueDelayUs: rng.chance(0.3) ? rng.below(5000) : undefined,
    },
  }));
}

interface Expectation {
  readonly sent: Sent;
  readonly rows: number;
  readonly first: number;
}

async function runScenario(seed: number): Promise<void> {
  const rng = new Rng(seed);
  const failing = rng.chance(0.3) ? 0.1 : 0;
  const models = recipes(rng);
  await using serving = await fakeServing(models, {
    maxInflightBytes: rng.chance(0.2) ? 2000 : Infinity,
    script: {
      onExecute: () => (rng.chance(failing) ? { error: new ServerError("INTERNAL", "scripted") } : { extraNs: 0 }),
    },
  });
  const all: Expectation[] = [];
  let atNs = 0;
  for (let index = 0; index < 60; index++) {
    atNs += rng.chance(0.5) ? 0 : rng.exponential(3e5);
    const model = rng.pick(models).name;
    const rows = rng.chance(0.1) ? 1 + rng.below(40) : 1 + rng.below(3);
    const first = rng.below(1e6);
    const timeoutUs = rng.chance(0.2) ? BigInt(1 + rng.below(3000)) : 0n;
    const cancelAfterNs = rng.chance(0.15) ? rng.below(2e6) : -1;
    serving.clock.after(atNs, () => {
      const sent = serving.send(model, rows, first, { parameters: new Map([["timeout", timeoutUs]]) });
      all.push({ sent, rows, first });
      if (cancelAfterNs >= 0) serving.clock.after(cancelAfterNs, sent.cancel);
    });
  }
  await serving.settle();
  expect(all.length).toBe(60);
  for (const { sent, rows, first } of all) {
    const answer = await sent.reply.then(values, (error: ServerError) => error.code);
    if (typeof answer === "string") expect(EXPECTED_FAILURES).toContain(answer);
    else expect(answer).toEqual(Array.from({ length: rows * 4 }, (_, index) => first + index));
  }
  expect(serving.inference.admission.inflightBytes).toBe(0);
  for (const model of serving.inference.registry.models()) expect(model.queue.depth).toBe(0);
  expect(serving.device.memoryStatistics().inUse).toBe(0);
}

test(`${replay ? 1 : scenarios} random scenarios`, async () => {
  for (let index = 0; index < (replay ? 1 : scenarios); index++) {
    const seed = replay ? Number(replay) : 1000 + index;
    try {
      await runScenario(seed);
    } catch (cause) {
      throw new Error(`scenario failed; replay with XLASERVER_SIM_SEED=${seed}`, { cause });
    }
  }
}, 600_000);

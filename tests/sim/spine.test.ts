// Random scenarios through the production spine on the fake device: bursts, oversize requests, cancellations, timeouts,
// failing executions, slow ones. Whatever happens, each request is answered once and rightly, and nothing is kept.
//
// XLASERVER_SIM_SCENARIOS sets how many (default 1000); XLASERVER_SIM_SEED replays one. A failure prints its seed.
import { expect, test } from "bun:test";
import { ServerError } from "../../src/base/errors.ts";
import { type FakeModelRecipe, type FakeServing, fakeServing, values } from "../support/fake-serving.ts";
import { Rng } from "../support/rng.ts";

const scenarios = Number(process.env.XLASERVER_SIM_SCENARIOS ?? 1000);
const replay = process.env.XLASERVER_SIM_SEED;
const REQUESTS = 60;

function recipes(rng: Rng): FakeModelRecipe[] {
  return Array.from({ length: 1 + rng.below(5) }, (_, index) => {
    const sizes = () => rng.pick([[1], [1, 4], [2, 8], [1, 4, 16], [3]]);
    return {
      name: `m${index}`,
      ...(rng.chance(0.3) ? { variants: { 2: sizes(), 4: sizes() } } : { sizes: sizes() }),
      rowsLast: rng.chance(0.2),
      costNs: 1e4 * 10 ** rng.below(4),
      limits: {
        maxBatchSize: rng.chance(0.2) ? 1 + rng.below(8) : Infinity,
        maxQueueDepth: rng.chance(0.2) ? 4 : 1e6,
        maxQueueDelayUs: rng.chance(0.3) ? rng.below(5000) : undefined,
      },
    };
  });
}

interface Expectation {
  /** The values of the reply, which is read and released at once, or the status. */
  readonly answer: Promise<number[] | string>;
  readonly values: readonly number[];
  /** What may become of it beside the right answer. */
  readonly failures: readonly string[];
}

/** What a scenario does to all its requests. */
interface Weather {
  /** Probability that an execution fails. */
  readonly failing: number;
  readonly maxInflightBytes: number;
}

/** Sends one random request at `atNs`. */
function schedule(
  serving: FakeServing,
  models: readonly FakeModelRecipe[],
  rng: Rng,
  atNs: number,
  { failing, maxInflightBytes }: Weather,
  all: Expectation[],
): void {
  const model = rng.pick(models);
  const rows = rng.chance(0.1) ? 1 + rng.below(40) : 1 + rng.below(3);
  const width = model.variants && rng.chance(0.5) ? 2 : 4;
  const first = rng.below(1e6);
  const timeoutUs = rng.chance(0.2) ? BigInt(1 + rng.below(3000)) : 0n;
  const cancelAfterNs = rng.chance(0.15) ? rng.below(2e6) : -1;
  const failures = [
    ...(timeoutUs > 0n ? ["DEADLINE_EXCEEDED"] : []),
    ...(cancelAfterNs >= 0 ? ["CANCELLED"] : []),
    ...(failing > 0 ? ["INTERNAL"] : []),
    ...(maxInflightBytes < Infinity || model.limits!.maxQueueDepth! < 1e6 ? ["RESOURCE_EXHAUSTED"] : []),
  ];
  serving.clock.after(atNs, () => {
    const sent = serving.send(model.name, rows, first, { width, parameters: new Map([["timeout", timeoutUs]]) });
    const answer = sent.reply.then(values, (error: ServerError) => error.code);
    all.push({ answer, values: Array.from({ length: rows * width }, (_, each) => first + each), failures });
    if (cancelAfterNs >= 0) serving.clock.after(cancelAfterNs, sent.cancel);
  });
}

async function runScenario(seed: number): Promise<void> {
  const rng = new Rng(seed);
  const weather = { failing: rng.chance(0.3) ? 0.1 : 0, maxInflightBytes: rng.chance(0.2) ? 2000 : Infinity };
  const models = recipes(rng);
  await using serving = await fakeServing(models, {
    maxInflightBytes: weather.maxInflightBytes,
    // Sometimes room for two slabs only: requests in many pieces must not keep each other waiting.
    slabBytes: rng.chance(0.2) ? 16 << 10 : 1 << 24,
    script: {
      onExecute: () =>
        rng.chance(weather.failing) ? { error: new ServerError("INTERNAL", "scripted") } : { extraNs: 0 },
    },
  });
  const all: Expectation[] = [];
  let atNs = 0;
  for (let index = 0; index < REQUESTS; index++) {
    atNs += rng.chance(0.5) ? 0 : rng.exponential(3e5);
    schedule(serving, models, rng, atNs, weather, all);
  }
  await serving.settle();
  expect(all.length).toBe(REQUESTS);
  for (const { answer, values: expected, failures } of all) {
    const received = await answer;
    if (typeof received === "string") expect(failures).toContain(received);
    else expect(received).toEqual([...expected]);
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

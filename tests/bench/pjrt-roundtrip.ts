// The price of the owned PJRT objects: a round trip of a 16-float identity, against the same calls written out by hand.
//
// Host to device, execute, await, device to host. Contestants run in turns in one process, so that a ratio is of one run on
// one machine; `measureRoundTrips` takes further ones (a device layer), and the first is what the others are compared with.
// Run it: bun tests/bench/pjrt-roundtrip.ts [plugin]

import { CFunction, type Pointer } from "bun:ffi";
import { addressesAt, addressOf, offsetAddress } from "../../ffi/memory.ts";
import { PjrtBuffer } from "../../ffi/pjrt/buffer.ts";
import { PjrtClient } from "../../ffi/pjrt/client.ts";
import { encodeCompileOptions } from "../../ffi/pjrt/compile-options.ts";
import { PjrtExecutable } from "../../ffi/pjrt/executable.ts";
import { API_FUNCTIONS } from "../../ffi/pjrt/function-order.ts";
import { HostShape } from "../../ffi/pjrt/host-shape.ts";
import { loadPlugin } from "../../ffi/pjrt/plugin.ts";
import { ApiHead } from "../../ffi/pjrt/structs.ts";
import { median } from "../support/median.ts";
import { TEST_PLUGIN_NAMES, type TestPluginName, testPlugin } from "../support/plugins.ts";

const FLOATS = 16;
const BYTES = FLOATS * 4;
const F32 = 11;

export const IDENTITY_MODULE = new TextEncoder().encode(
  `module @identity { func.func public @main(%x: tensor<${FLOATS}xf32>) -> tensor<${FLOATS}xf32> { return %x : tensor<${FLOATS}xf32> } }`,
);

/** One way to do the round trip: `run` brings `input` to the device, executes, and fills `output`. */
export interface Contestant {
  readonly name: string;
  run(input: Float32Array, output: Float32Array): void | Promise<void>;
}

export interface RoundTripResult {
  readonly name: string;
  /** Median over the rounds of one round trip. */
  readonly medianUs: number;
  /** Median over the rounds of this contestant's time divided by the first one's in the same round. */
  readonly ratio: number;
}

/** Runs the contestants in turns and checks that each returns what it was given. */
export async function measureRoundTrips(
  contestants: readonly Contestant[],
  { rounds = 60, callsPerRound = 500 } = {},
): Promise<RoundTripResult[]> {
  const input = new Float32Array(new ArrayBuffer(BYTES)).map((_, index) => index + 0.5);
  const output = new Float32Array(new ArrayBuffer(BYTES));
  const timesUs: number[][] = contestants.map(() => []);
  const warmUpRounds = 4;
  for (let round = -warmUpRounds; round < rounds; round++) {
    for (const [index, contestant] of contestants.entries()) {
      output.fill(0);
      const startNs = Bun.nanoseconds();
      for (let call = 0; call < callsPerRound; call++) {
        const pending = contestant.run(input, output);
        if (pending) await pending;
      }
      const us = (Bun.nanoseconds() - startNs) / 1e3 / callsPerRound;
      if (round >= 0) timesUs[index]!.push(us);
      if (output.some((value, at) => value !== input[at])) throw new Error(`${contestant.name} returned wrong values`);
    }
  }
  const first = timesUs[0]!;
  return contestants.map(({ name }, index) => ({
    name,
    medianUs: median(timesUs[index]!),
    ratio: median(timesUs[index]!.map((us, round) => us / first[round]!)),
  }));
}

/** The owned objects of ffi/pjrt. */
export function ownedObjects(client: PjrtClient, executable: PjrtExecutable): Contestant {
  const device = client.devices()[0]!;
  const shape = new HostShape(F32, [FLOATS]);
  return {
    name: "owned objects",
    run(input, output) {
      using argument = PjrtBuffer.copyFromHost(client, device, addressOf(input), shape);
      const { outputs, done } = executable.execute([argument]);
      using result = outputs[0]!;
      done.await();
      done[Symbol.dispose]();
      using copied = result.toHost(addressOf(output), BYTES);
      copied.await();
    },
  };
}

// C reads these through addresses, which the garbage collector does not see.
const handWrittenMemory: Uint32Array[] = [];

/** 64-bit words for C to read and write. */
function struct(words: readonly number[]): Uint32Array {
  const view = new Uint32Array(new ArrayBuffer(words.length * 8));
  for (const [index, word] of words.entries()) put(view, index, word);
  handWrittenMemory.push(view);
  return view;
}

/** The functions of the round trip, straight from the table. */
function bindByHand({ api }: PjrtClient) {
  const table = addressesAt(offsetAddress(api.address, ApiHead.stride), API_FUNCTIONS.length);
  const bind = (name: (typeof API_FUNCTIONS)[number]) =>
    CFunction({ ptr: table[API_FUNCTIONS.indexOf(name)]! as number as Pointer, args: ["ptr"], returns: "ptr" });
  return {
    fromHost: bind("PJRT_Client_BufferFromHostBuffer"),
    execute: bind("PJRT_LoadedExecutable_Execute"),
    awaitEvent: bind("PJRT_Event_Await"),
    destroyEvent: bind("PJRT_Event_Destroy"),
    toHost: bind("PJRT_Buffer_ToHostBuffer"),
    destroyBuffer: bind("PJRT_Buffer_Destroy"),
  };
}

/** Their Args, with every field set that stays the same. */
function layOutByHand(client: PjrtClient, executable: PjrtExecutable) {
  const device = client.devices()[0]!.address;
  const dims = addressOf(struct([FLOATS]));
  const inputs = struct([0]);
  const outputs = struct([0]);
  const done = struct([0]);
  const inputLists = addressOf(struct([addressOf(inputs)]));
  const outputLists = addressOf(struct([addressOf(outputs)]));
  const options = addressOf(struct([112, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
  const launch = [80, 0, executable.address, options, inputLists, 1, 1, outputLists, addressOf(done), 0];
  return {
    inputs,
    outputs,
    done,
    fromHostArgs: struct([120, 0, client.address, 0, F32, dims, 1, 0, 0, 0, device, 0, 0, 0, 0]),
    executeArgs: struct(launch),
    toHostArgs: struct([56, 0, 0, 0, 0, BYTES, 0]),
    eventArgs: struct([24, 0, 0]),
    bufferArgs: struct([24, 0, 0]),
  };
}

/** The same calls with nothing between bun:ffi and the structs. */
export function handWritten(client: PjrtClient, executable: PjrtExecutable): Contestant {
  const { fromHost, execute, awaitEvent, destroyEvent, toHost, destroyBuffer } = bindByHand(client);
  const memory = layOutByHand(client, executable);
  const { inputs, outputs, done, fromHostArgs, toHostArgs, eventArgs, bufferArgs } = memory;
  const fromHostAt = addressOf(fromHostArgs);
  const executeAt = addressOf(memory.executeArgs);
  const toHostAt = addressOf(toHostArgs);
  const eventAt = addressOf(eventArgs);
  const bufferAt = addressOf(bufferArgs);
  return {
    name: "by hand",
    run(input, output) {
      put(fromHostArgs, 3, addressOf(input));
      check(fromHost(fromHostAt));
      copy(eventArgs, 2, fromHostArgs, 13);
      check(destroyEvent(eventAt));
      copy(inputs, 0, fromHostArgs, 14);
      check(execute(executeAt));
      copy(eventArgs, 2, done, 0);
      check(awaitEvent(eventAt));
      check(destroyEvent(eventAt));
      copy(toHostArgs, 2, outputs, 0);
      put(toHostArgs, 4, addressOf(output));
      check(toHost(toHostAt));
      copy(eventArgs, 2, toHostArgs, 6);
      check(awaitEvent(eventAt));
      check(destroyEvent(eventAt));
      copy(bufferArgs, 2, outputs, 0);
      check(destroyBuffer(bufferAt));
      copy(bufferArgs, 2, inputs, 0);
      check(destroyBuffer(bufferAt));
    },
  };
}

function check(error: unknown): void {
  if (error) throw new Error("a PJRT call failed");
}

/** Copies word `from` of `source` to word `at` of `target`. */
function copy(target: Uint32Array, at: number, source: Uint32Array, from: number): void {
  target[at * 2] = source[from * 2]!;
  target[at * 2 + 1] = source[from * 2 + 1]!;
}

function put(view: Uint32Array, index: number, value: number): void {
  view[index * 2] = value;
  view[index * 2 + 1] = value / 2 ** 32;
}

/** One row a contestant. */
export function formatRoundTrips(results: readonly RoundTripResult[]): string {
  return results
    .map(
      ({ name, medianUs, ratio }) => `${name.padEnd(16)} ${medianUs.toFixed(1).padStart(8)} us  x ${ratio.toFixed(3)}`,
    )
    .join("\n");
}

async function main(name: TestPluginName): Promise<void> {
  const plugin = await testPlugin(name);
  if (plugin.path === undefined) {
    console.log(`skipped: ${plugin.skip}`);
    return;
  }
  const api = loadPlugin(plugin.path);
  using client = PjrtClient.create(api, { cpu_device_count: 1 });
  using executable = PjrtExecutable.compile(client, IDENTITY_MODULE, encodeCompileOptions());
  const results = await measureRoundTrips([handWritten(client, executable), ownedObjects(client, executable)]);
  console.log(
    `round trip of ${FLOATS} floats, ${name} (PJRT API 0.${api.version.minor})\n${formatRoundTrips(results)}`,
  );
}

if (import.meta.main) await main(TEST_PLUGIN_NAMES.find((name) => name === process.argv[2]) ?? "lammps");

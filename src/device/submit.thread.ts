// The device's submitter thread: launches runs in order and passes what is under way to the completer.
//
// It waits for nothing but uploads into an arena. A launch that fails goes the same way, so that runs settle in order.
// Started by run-port.ts.

import type { Address } from "../../ffi/memory.ts";
import { Launcher } from "./launcher.ts";
import { toPlainError } from "./plain-error.ts";
import type { FlightMessage, SubmitMessage } from "./run-port.ts";

declare const self: Worker;

let launcher: Launcher;
let completer: MessagePort;

function submit([run, executable, weights, slab, arenaOffset]: readonly number[]): FlightMessage {
  try {
    const flight = launcher.launch(executable!, weights!, slab as Address, arenaOffset!);
    flight.unshift(run!);
    return flight;
  } catch (thrown) {
    return { run: run!, error: toPlainError(thrown) };
  }
}

self.onmessage = ({ data }: MessageEvent<SubmitMessage>) => {
  if (!("command" in data)) {
    completer.postMessage(submit(data));
    return;
  }
  switch (data.command) {
    case "open":
      launcher = new Launcher(data.target);
      completer = data.completer;
      return;
    case "addExecutable":
      return launcher.addExecutable(data.id, data.executable);
    case "removeExecutable":
      return launcher.removeExecutable(data.id);
    case "addWeights":
      return launcher.addWeights(data.id, data.buffers);
    case "removeWeights":
      return launcher.removeWeights(data.id);
    case "close":
      completer.postMessage({ held: launcher.close() } satisfies FlightMessage);
  }
};

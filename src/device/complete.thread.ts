// The device's completer thread: awaits runs in the order of their launch and reports each to the main thread.
//
// It blocks in PJRT while anything is under way, and has nothing else to do. Started by run-port.ts.

import { Completer } from "./completer.ts";
import { toPlainError } from "./plain-error.ts";
import type { CompleterOpening, CompletionMessage, FlightMessage } from "./run-port.ts";

declare const self: Worker;

self.onmessage = ({ data: { api, submitter } }: MessageEvent<CompleterOpening>) => {
  const completer = new Completer(api);
  submitter.onmessage = (event) => {
    self.postMessage(answer(completer, event.data as FlightMessage));
  };
};

function answer(completer: Completer, message: FlightMessage): CompletionMessage {
  if (!Array.isArray(message)) {
    return "held" in message ? { held: [message.held, completer.close()] } : message;
  }
  const run = message.shift()!;
  try {
    const { uploadNs, executeNs, downloadNs } = completer.complete(message);
    return [run, uploadNs, executeNs, downloadNs];
  } catch (thrown) {
    return { run, error: toPlainError(thrown) };
  }
}

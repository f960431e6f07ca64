// The device's loader thread: answers the calls of loader-port.ts in order, each of which may block it.
//
// Owns the client and all handles that are made with it. Started by loader-port.ts.

import { Loader } from "./loader.ts";
import { answerCall, type LoaderAnswer, type LoaderCall } from "./loader-port.ts";
import { toPlainError } from "./plain-error.ts";

declare const self: Worker;

const loader = new Loader();
let turn: Promise<void> = Promise.resolve();

self.onmessage = ({ data: { id, method, args } }: MessageEvent<LoaderCall>) => {
  turn = turn.then(async () => {
    let answer: LoaderAnswer;
    try {
      answer = { id, value: await answerCall(loader, method, args) };
    } catch (thrown) {
      answer = { id, error: toPlainError(thrown) };
    }
    self.postMessage(answer);
  });
};

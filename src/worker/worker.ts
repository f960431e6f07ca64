// worker: one device's process. Serves until a signal drains it, a second one ends it, or the device is lost.
//
// Exit code 0 after a drain, 1 when it could not start, when --strict found a bundle that can't be served, or none
// at all, or when the device was lost (a supervisor then starts it anew). Called by `xlaserver serve`.

import { NS_PER_S, systemClock } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import { CLOSE_NS_MAX } from "../base/limits.ts";
import { log } from "../base/log.ts";
import type { Config } from "../config/config.ts";
import { type Server, startServer } from "./server.ts";

// A terminal that closes sends SIGHUP.
const SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP"] as const;

/** Runs a worker to its end and returns the process's exit code. */
export async function runWorker(config: Config): Promise<number> {
  const { promise: ended, resolve: end } = Promise.withResolvers<number>();
  const startNs = systemClock.nowNs();
  let server: Server | undefined;
  let draining = false;
  const onSignal = (signal: string) => {
    if (draining) {
      log.warn("second signal: exiting at once", { signal });
      process.exit(1);
    }
    draining = true;
    log.info("draining", { signal, seconds: config.drainSeconds });
    if (server) void server.drain().then(() => end(0));
    else end(0);
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  const starting = startServer(config, { onFault: () => end(1) }).catch((error: unknown) => {
    log.error("cannot start", { error });
    end(1);
    return undefined;
  });
  // A signal does not wait for a device that is still being opened: nothing is in flight yet.
  server = await Promise.race([starting, ended.then(() => undefined)]);
  if (!server) return ended;
  void server.settled.then(
    ({ ready, unavailable }) => {
      if (draining) return;
      log.info("ready", { models: ready, unavailable, ms: Math.round((systemClock.nowNs() - startNs) / 1e6) });
      const none = ready + unavailable === 0;
      if (none) log.warn("no models", { directories: config.modelDirs });
      if (config.strict && (none || unavailable > 0)) end(1);
    },
    (error: unknown) => {
      log.error("cannot start", { error: messageOf(error) });
      end(1);
    },
  );
  try {
    return await ended;
  } finally {
    await close(server);
    for (const signal of SIGNALS) process.off(signal, onSignal);
    log.info("stopped");
  }
}

/** Gives everything back. An execution that never ends keeps its device for ever, but not the process. */
async function close(server: Server): Promise<void> {
  const { promise: late, resolve: giveUp } = Promise.withResolvers<void>();
  const timer = systemClock.after(CLOSE_NS_MAX, () => {
    log.warn("not closed in time: something still runs on the device", { seconds: CLOSE_NS_MAX / NS_PER_S });
    giveUp();
  });
  await Promise.race([server[Symbol.asyncDispose](), late]);
  timer.cancel();
}

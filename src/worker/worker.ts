// worker: one device's process. Serves until a signal drains it, a second one ends it, or the device is lost.
//
// Exit code 0 after a drain, 1 when it could not start, when --strict found a bundle that can't be served, or when the
// device was lost (a supervisor then starts it anew). Called by `xlaserver serve`.

import { systemClock } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import { log } from "../base/log.ts";
import type { Config } from "../config/config.ts";
import { startServer } from "./server.ts";

const SIGNALS = ["SIGTERM", "SIGINT"] as const;

/** Runs a worker to its end and returns the process's exit code. */
export async function runWorker(config: Config): Promise<number> {
  const { promise: ended, resolve: end } = Promise.withResolvers<number>();
  const startNs = systemClock.nowNs();
  const server = await startServer(config, { onFault: () => end(1) }).catch((error: unknown) => {
    log.error("cannot start", { error });
    return undefined;
  });
  if (!server) return 1;
  let draining = false;
  const onSignal = (signal: string) => {
    if (draining) {
      log.warn("second signal: exiting at once", { signal });
      process.exit(1);
    }
    draining = true;
    log.info("draining", { signal, seconds: config.drainSeconds });
    void server.drain().then(() => end(0));
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  void server.settled.then(
    ({ ready, unavailable }) => {
      if (draining) return;
      log.info("ready", { models: ready, unavailable, ms: Math.round((systemClock.nowNs() - startNs) / 1e6) });
      if (config.strict && unavailable > 0) end(1);
    },
    (error: unknown) => {
      log.error("cannot start", { error: messageOf(error) });
      end(1);
    },
  );
  try {
    return await ended;
  } finally {
    for (const signal of SIGNALS) process.off(signal, onSignal);
    await server[Symbol.asyncDispose]();
    log.info("stopped");
  }
}

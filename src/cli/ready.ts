// `xlaserver ready`: asks a server whether it is ready, for health checks of containers that have no other client.

import { messageOf } from "../base/errors.ts";
import { type Command, UsageError } from "./arguments.ts";
import { print } from "./output.ts";

const ADDRESS = "127.0.0.1:8002";
const TIMEOUT_MS = 5000;

export const command: Command = {
  usage: "[flags]",
  flags: { server: { value: "HOST:PORT", help: `Metrics port to ask, ${ADDRESS} by default.` } },
  async run(args) {
    const url = `http://${args.text("server") ?? ADDRESS}/readyz`;
    if (!URL.canParse(url)) throw new UsageError(`--server: expected HOST:PORT, received '${args.text("server")}'`);
    try {
      const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) });
      await print(response.ok ? "ready\n" : "not ready\n");
      return response.ok ? 0 : 1;
    } catch (thrown) {
      await print(`not reachable: ${messageOf(thrown)}\n`);
      return 1;
    }
  },
};

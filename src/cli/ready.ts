// `xlaserver ready`: asks a server whether it is ready, for health checks of containers that have no other client.
//
// Asks by gRPC (ServerReady), so that it says what clients would see.

import { messageOf } from "../base/errors.ts";
import type { Command } from "./arguments.ts";
import { print } from "./output.ts";

const ADDRESS = "127.0.0.1:8001";
const TIMEOUT_MS = 5000;

export const command: Command = {
  usage: "[flags]",
  details: "\nExits with 0 if the server is ready, else with 1.",
  flags: { server: { value: "HOST:PORT", help: `Server to ask, ${ADDRESS} by default.` } },
  async run(args) {
    const { connect } = await import("./server-target.ts");
    using server = connect(args.text("server") ?? ADDRESS, TIMEOUT_MS);
    try {
      const ready = await server.isReady();
      await print(ready ? "ready\n" : "not ready\n");
      return ready ? 0 : 1;
    } catch (thrown) {
      await print(`${messageOf(thrown)}\n`);
      return 1;
    }
  },
};

// `xlaserver ready`: asks a server whether it is ready, for health checks of containers that have no other client.
//
// Asks by gRPC (ServerReady), so that it says what clients would see.

import { messageOf } from "../base/errors.ts";
import type { Command } from "./arguments.ts";
import { print } from "./output.ts";
import { SERVER_FLAG, serverAddress } from "./server-address.ts";

const TIMEOUT_MS = 5000;

export const command: Command = {
  usage: "[flags]",
  details: "\nExits with 0 if the server is ready, else with 1.",
  flags: { server: SERVER_FLAG },
  async run(args) {
    const address = await serverAddress(args);
    const { connect } = await import("./server-target.ts");
    using server = connect(address, TIMEOUT_MS);
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

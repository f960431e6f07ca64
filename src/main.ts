// The executable's entry: argv to a command, its result to the exit code.
//
// Nothing else happens at import time, since every thread's and helper's start pays for it.

import { logWritten } from "./base/log.ts";
import { runCommandLine } from "./cli/commands.ts";

const exitCode = await runCommandLine(process.argv.slice(2));
await logWritten();

// Ends the process even where native threads or sockets are still about: the command has said that it is done.
process.exit(exitCode);

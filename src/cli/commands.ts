// The table of commands, and the way from a command line to an exit code: 0 done, 1 failed, 2 wrong usage.
//
// A command's file is imported only when it runs, so that `version` does not pay for the server. `serve` is what a
// command line without a command means. Called by main.ts.

import { describeError } from "../base/log.ts";
import { didYouMean } from "../base/nearest.ts";
import { type Command, helpOf, parseArguments, UsageError } from "./arguments.ts";
import { print } from "./output.ts";

type Load = () => Promise<{ readonly command: Command }>;

export const COMMANDS: Readonly<Record<string, Load>> = {
  serve: () => import("./serve.ts"),
  config: () => import("./config.ts"),
  licenses: () => import("./licenses.ts"),
  version: () => import("./version.ts"),
};

/** Started by the server itself; not in the help. */
const HIDDEN: Readonly<Record<string, (argv: readonly string[]) => Promise<number>>> = {};

const DONE = 0;
const FAILED = 1;
const WRONG_USAGE = 2;

/** Runs `xlaserver ...argv` and resolves to its exit code. Never rejects. */
export async function runCommandLine(argv: readonly string[]): Promise<number> {
  const [first] = argv;
  if (first !== undefined && HIDDEN[first]) return HIDDEN[first](argv.slice(1));
  if (first === undefined && !process.env.XLASERVER_NODE_FILE) {
    process.stderr.write(await overview());
    return WRONG_USAGE;
  }
  if (first === "--help" || first === "-h" || first === "help") {
    const name = argv[1];
    return name && first === "help" ? runCommand(name, ["--help"]) : print(await overview()).then(() => DONE);
  }
  if (first === "--version") return runCommand("version", argv.slice(1));
  if (first === undefined || first.startsWith("-")) return runCommand("serve", argv);
  return runCommand(first, argv.slice(1));
}

async function runCommand(name: string, argv: readonly string[]): Promise<number> {
  try {
    const load = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
    if (!load) throw new UsageError(`unknown command '${name}'${didYouMean(name, Object.keys(COMMANDS))}`);
    const { command } = await load();
    const args = parseArguments(command, argv);
    if (args === "help") {
      await print(helpOf(name, command));
      return DONE;
    }
    return await command.run(args);
  } catch (thrown) {
    const usage = thrown instanceof UsageError;
    const hint = usage ? `\nsee 'xlaserver ${Object.hasOwn(COMMANDS, name) ? `${name} ` : ""}--help'` : "";
    process.stderr.write(`xlaserver: ${describeError(thrown)}${hint}\n`);
    if (!(thrown instanceof Error) || process.env.XLASERVER_LOGGING_LEVEL !== "debug")
      return usage ? WRONG_USAGE : FAILED;
    process.stderr.write(`${thrown.stack}\n`);
    return usage ? WRONG_USAGE : FAILED;
  }
}

async function overview(): Promise<string> {
  const rows: string[] = [];
  const width = Math.max(...Object.keys(COMMANDS).map((name) => name.length));
  for (const [name, load] of Object.entries(COMMANDS)) {
    rows.push(`  ${name.padEnd(width)}  ${(await load()).command.summary}`);
  }
  return `Usage: xlaserver --config node.yaml
       xlaserver serve --model-repository DIR [flags]
       xlaserver COMMAND [arguments] [flags]

Commands:
${rows.join("\n")}

'xlaserver COMMAND --help' tells more about each.
`;
}

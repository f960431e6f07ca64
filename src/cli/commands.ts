// The table of commands, and the way from a command line to an exit code: 0 done, 1 failed, 2 wrong usage.
//
// A command's file is imported only when it runs, so that `version` does not pay for the server. `serve` is what a
// command line without a command means. Called by main.ts.

import { isDirectory } from "../base/files.ts";
import { describeError } from "../base/log.ts";
import { didYouMean } from "../base/nearest.ts";
import { type Command, helpOf, parseArguments, UsageError } from "./arguments.ts";
import { print } from "./output.ts";

interface Listed {
  readonly summary: string;
  readonly load: () => Promise<{ readonly command: Command }>;
}

export const COMMANDS: Readonly<Record<string, Listed>> = {
  serve: { summary: "Serve the bundles of a node file or a directory.", load: () => import("./serve.ts") },
  infer: {
    summary: "Send one request to a server, or run a bundle in this process.",
    load: () => import("./infer.ts"),
  },
  validate: {
    summary: "Check a bundle, or all of a directory, as the server would.",
    load: () => import("./validate.ts"),
  },
  inspect: { summary: "Compile a bundle; show signature, weights, memory, cost.", load: () => import("./inspect.ts") },
  test: { summary: "Run a bundle's tests (*.test.ts).", load: () => import("./test.ts") },
  plugins: {
    summary: "List the PJRT plugins that are found, and why some can't be used.",
    load: () => import("./plugins.ts"),
  },
  config: { summary: "Check a node file and print the settings that result.", load: () => import("./config.ts") },
  ready: { summary: "Ask a server whether it is ready.", load: () => import("./ready.ts") },
  licenses: { summary: "Print the licences of everything in this executable.", load: () => import("./licenses.ts") },
  version: { summary: "Print the version of this executable.", load: () => import("./version.ts") },
};

/** Started by the server itself; not in the help. These end with their parent. */
const HIDDEN: Readonly<Record<string, () => Promise<never>>> = {
  async __compile() {
    const { runCompileChild } = await import("../device/compile-child.ts");
    runCompileChild();
    return new Promise<never>(() => {});
  },
};

const DONE = 0;
const FAILED = 1;
const WRONG_USAGE = 2;

/** Runs `xlaserver ...argv` and resolves to its exit code. Never rejects. */
export async function runCommandLine(argv: readonly string[]): Promise<number> {
  const [first] = argv;
  if (first !== undefined && HIDDEN[first]) return HIDDEN[first]();
  if (first === undefined && !process.env.XLASERVER_NODE_FILE) {
    process.stderr.write(overview());
    return WRONG_USAGE;
  }
  if (first === "--help" || first === "-h" || first === "help") {
    const name = argv[1];
    return name && first === "help" ? runCommand(name, ["--help"]) : print(overview()).then(() => DONE);
  }
  if (first === "--version") return runCommand("version", argv.slice(1));
  if (first === undefined || first.startsWith("-")) return runCommand("serve", argv);
  return runCommand(first, argv.slice(1));
}

async function runCommand(name: string, argv: readonly string[]): Promise<number> {
  try {
    const listed = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
    if (!listed) throw new UsageError(`unknown command '${name}'${whatWasMeant(name)}`);
    const { command } = await listed.load();
    const args = parseArguments(command, argv);
    if (args === "help") {
      await print(helpOf(name, listed.summary, command));
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

/** A node file or a model directory that lacks its flag, or the nearest command. */
function whatWasMeant(word: string): string {
  if (/\.ya?ml$/.test(word)) return `, did you mean '--config ${word}'?`;
  if (isDirectory(word)) return `, did you mean 'serve --model-repository ${word}'?`;
  return didYouMean(word, Object.keys(COMMANDS));
}

function overview(): string {
  const width = Math.max(...Object.keys(COMMANDS).map((name) => name.length));
  const rows = Object.entries(COMMANDS).map(([name, { summary }]) => `  ${name.padEnd(width)}  ${summary}`);
  return `Usage: xlaserver --config node.yaml
       xlaserver serve --model-repository DIR [flags]
       xlaserver COMMAND [arguments] [flags]

Commands:
${rows.join("\n")}

'xlaserver COMMAND --help' tells more about each.
`;
}

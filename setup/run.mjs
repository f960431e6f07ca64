// Runs commands and steps: a step prints what it does and how long it took, a command that fails says what it was.
//
// A step that is already done prints nothing, so that a second run is quiet. Every failure ends as one line that names
// the step, the command and what to do, after the last lines of the command's own output. Used by every file of setup/.

import { spawn } from "node:child_process";
import { ROOT } from "./paths.mjs";

const TAIL_LINES = 30;
const HEARTBEAT_MS = 15_000;

/** A failure with its remedy. `output` is what the command wrote last. */
export class SetupError extends Error {
  constructor(message, output = "") {
    super(message);
    this.output = output;
  }
}

/**
 * Runs a command to its end and returns what it wrote; throws a SetupError when it can't start or exits non-zero.
 * @param {string} command
 * @param {string[]} args
 * @param {{env?: Record<string, string>, cwd?: string}} [options]
 * @returns {Promise<string>} standard output and error, together
 */
export async function run(command, args, options = {}) {
  const { code, output } = await watch(command, args, options);
  if (code === 0) return output;
  const line = [command, ...args].join(" ");
  throw new SetupError(`\`${line}\` ended with ${code}`, lastLines(output));
}

/**
 * Runs a command and passes its output on as it comes, if `show` is set. Never throws for an exit code.
 * @returns {Promise<{code: number | string, output: string}>} the exit code or the signal's name
 */
export function watch(command, args, { env = {}, cwd = ROOT, show = false } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
    const chunks = [];
    const take = (stream) => (chunk) => {
      chunks.push(chunk);
      if (show) stream.write(chunk);
    };
    child.stdout.on("data", take(process.stdout));
    child.stderr.on("data", take(process.stderr));
    child.on("error", (error) =>
      reject(
        new SetupError(
          error.code === "ENOENT" ? `\`${command}\` is not installed` : `\`${command}\`: ${error.message}`,
        ),
      ),
    );
    child.on("close", (code, signal) => resolve({ code: code ?? signal, output: Buffer.concat(chunks).toString() }));
  });
}

/**
 * Does one piece of the set-up, with a line when it starts and one when it ends.
 * @template T
 * @param {string} title what is being done, e.g. "JavaScript packages (npm ci)"
 * @param {string} remedy what the user can do when it fails
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function step(title, remedy, work) {
  const start = Date.now();
  const seconds = () => ((Date.now() - start) / 1000).toFixed(1);
  console.log(`setup: ${title} ...`);
  const heartbeat = setInterval(() => console.log(`setup: ${title}: at it for ${seconds()} s`), HEARTBEAT_MS);
  try {
    const result = await work();
    console.log(`setup: ${title}: done in ${seconds()} s`);
    return result;
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    throw new SetupError(`${title}: ${error.message}. ${remedy}`, error.output);
  } finally {
    clearInterval(heartbeat);
  }
}

/** Runs a script's main function; a SetupError becomes the command's last output, one line, and exit code 1. */
export async function script(main) {
  try {
    process.exitCode = (await main(process.argv.slice(2))) ?? 0;
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    if (error.output) console.error(error.output);
    console.error(`setup failed: ${error.message}`);
    process.exitCode = 1;
  }
}

/** The last lines of a text. */
export function lastLines(text, count = TAIL_LINES) {
  return text.trimEnd().split("\n").slice(-count).join("\n");
}

// `xlaserver validate DIR`: whether a bundle, or each bundle of a repository, can be served; for CI.
//
// Does what the server does before it admits a bundle: manifest, weights and modules are read, modules compiled and
// their signatures checked, hooks imported, each size run once. `--files-only` stops after reading.

import { dirname, join, resolve } from "node:path";
import { messageOf } from "../base/errors.ts";
import { isFile } from "../base/files.ts";
import { log } from "../base/log.ts";
import type { Bundle } from "../bundle/bundle.ts";
import { type Candidate, discoverBundles, readCandidate } from "../bundle/discover.ts";
import { loadBundle, MANIFEST_NAME } from "../bundle/load.ts";
import { loadModel } from "../model/load.ts";
import type { Core } from "../worker/core.ts";
import { type Arguments, type Command, UsageError } from "./arguments.ts";
import { openCoreFor } from "./bundle-target.ts";
import { DEVICE_FLAGS } from "./device-flags.ts";
import { JSON_FLAG, print, printJson, table, wantsJson } from "./output.ts";

interface Verdict {
  readonly name: string;
  readonly ok: boolean;
  /** Why it can't be served, one finding a line; "" when it can. */
  readonly reason: string;
  readonly warnings: readonly string[];
}

export const command: Command = {
  usage: "DIR [flags]",
  words: [1, 1],
  flags: {
    "files-only": { help: "Read and check the files, but compile and run nothing." },
    ...DEVICE_FLAGS,
    json: JSON_FLAG,
  },
  async run(args) {
    const directory = resolve(args.words[0]!);
    const verdicts = await judgeAll(directory, args);
    if (wantsJson(args)) await printJson(verdicts);
    else await print(inWords(verdicts));
    return verdicts.every(({ ok }) => ok) ? 0 : 1;
  },
};

/** The bundle at `directory`, or the bundles in it. Errors: UsageError when there is none. */
function candidatesIn(directory: string): readonly Candidate[] {
  if (isFile(join(directory, MANIFEST_NAME))) {
    const { candidates } = discoverBundles([dirname(directory)]);
    return candidates.filter((candidate) => candidate.directory === directory);
  }
  const { candidates, ignored, rootErrors } = discoverBundles([directory]);
  if (rootErrors[0]) throw new UsageError(messageOf(rootErrors[0]));
  for (const { directory, reason } of ignored) log.warn("directory ignored", { directory, reason });
  if (candidates.length === 0) throw new UsageError(`'${directory}' is no bundle and holds none (no ${MANIFEST_NAME})`);
  return candidates;
}

async function judgeAll(directory: string, args: Arguments): Promise<Verdict[]> {
  const candidates = candidatesIn(directory);
  if (args.has("files-only")) return candidates.map((candidate) => judgeFiles(candidate));
  await using core = await openCoreFor(directory, args);
  const verdicts: Verdict[] = [];
  for (const candidate of candidates) verdicts.push(await judge(candidate, core));
  return verdicts;
}

function judgeFiles(candidate: Candidate): Verdict {
  const { bundle, error } = readCandidate(candidate);
  return bundle ? good(bundle) : bad(candidate, error);
}

async function judge(candidate: Candidate, core: Core): Promise<Verdict> {
  try {
    const bundle = loadBundle(candidate.directory);
    await using _model = await loadModel(bundle, 1, core.host);
    return good(bundle);
  } catch (thrown) {
    return bad(candidate, thrown);
  }
}

function good({ name, warnings }: Bundle): Verdict {
  return { name, ok: true, reason: "", warnings };
}

function bad({ name }: Candidate, error: unknown): Verdict {
  return { name, ok: false, reason: messageOf(error), warnings: [] };
}

function inWords(verdicts: readonly Verdict[]): string {
  const rows = verdicts.flatMap(({ name, ok, reason, warnings }) => [
    [name, ok ? "good" : "BAD", reason.split("\n")[0]!],
    ...reason
      .split("\n")
      .slice(1)
      .map((line) => ["", "", line]),
    ...warnings.map((warning) => ["", "", `warning: ${warning}`]),
  ]);
  return table(["BUNDLE", "", "FINDINGS"], rows);
}

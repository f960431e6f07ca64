// Model repositories to bundles: each immediate subdirectory with a manifest.yaml is one, good or not.
//
// A bad bundle is an entry with its error and never stops the others; of two with one name the first root's wins. What
// only looks like a bundle is named too, so that nothing is passed over without a word. Called at start.

import { dirname, join, resolve } from "node:path";
import { messageOf, ServerError } from "../base/errors.ts";
import { isFile, listDirectory } from "../base/files.ts";
import type { Bundle } from "./bundle.ts";
import { loadBundle, MANIFEST_NAME } from "./load.ts";

/** Files of somebody who meant to make a bundle: modules, and a manifest under a name that isn't looked for. */
const LOOKALIKE = /^manifest\.(yml|json)$|\.mlir$/;

/** A directory that wants to be a bundle. */
export interface Candidate {
  readonly name: string;
  readonly directory: string;
  /** Why it can't be one, where that shows before it is read: another root has a bundle of its name. */
  readonly error: ServerError | undefined;
}

/** A subdirectory that was meant to be a bundle, as its files say, and has no manifest.yaml. */
export interface Ignored {
  readonly directory: string;
  /** E.g. `it holds model.mlir, but no manifest.yaml`. */
  readonly reason: string;
}

export interface Discovery {
  /** In order of roots, then of names. */
  readonly candidates: readonly Candidate[];
  /** In the same order. */
  readonly ignored: readonly Ignored[];
  /** One for each root that is missing, unreadable, or a bundle itself; a bundle's subdirectories are searched all the same. */
  readonly rootErrors: readonly ServerError[];
}

/** A bundle that was read, or the reason why it can't be served. */
export type Entry = Candidate &
  ({ readonly bundle: Bundle } | { readonly bundle: undefined; readonly error: ServerError });

/** Finds the candidates below `roots`. Hidden directories (`.git`, `..data` of mounted volumes) are no bundles. */
export function discoverBundles(roots: readonly string[]): Discovery {
  const candidates: Candidate[] = [];
  const ignored: Ignored[] = [];
  const rootErrors: ServerError[] = [];
  const owners = new Map<string, string>();
  for (const root of new Set(roots.map((each) => resolve(each)))) {
    try {
      const entries = listDirectory(root);
      if (entries.some(({ name }) => name === MANIFEST_NAME)) rootErrors.push(bundleAsRoot(root));
      for (const { name, kind } of entries) {
        if (kind !== "directory" || name.startsWith(".")) continue;
        const directory = join(root, name);
        const { isBundle, lookalike } = lookInto(directory);
        if (lookalike) ignored.push({ directory, reason: `it holds ${lookalike}, but no ${MANIFEST_NAME}` });
        if (!isBundle) continue;
        const owner = owners.get(name);
        owners.set(name, owner ?? directory);
        const error = owner === undefined ? undefined : duplicate(name, owner, directory);
        candidates.push({ name, directory, error });
      }
    } catch (thrown) {
      rootErrors.push(new ServerError("NOT_FOUND", `model repository: ${messageOf(thrown)}`, { cause: thrown }));
    }
  }
  return { candidates, ignored, rootErrors };
}

/** Reads a candidate. Never throws: whatever goes wrong is the entry's error. */
export function readCandidate(candidate: Candidate): Entry {
  if (candidate.error) return { ...candidate, bundle: undefined, error: candidate.error };
  try {
    return { ...candidate, bundle: loadBundle(candidate.directory) };
  } catch (thrown) {
    return { ...candidate, bundle: undefined, error: ServerError.from(thrown, `bundle '${candidate.name}'`) };
  }
}

/** Whether a directory has a manifest, and if not, the name of a file that only a bundle would have. */
function lookInto(directory: string): { readonly isBundle: boolean; readonly lookalike?: string | undefined } {
  try {
    const names = listDirectory(directory).map(({ name }) => name);
    if (names.includes(MANIFEST_NAME)) return { isBundle: true };
    return { isBundle: false, lookalike: names.find((name) => LOOKALIKE.test(name)) };
  } catch {
    // A directory that can't be looked into is a candidate too: reading it then says why it is none.
    return { isBundle: isFile(join(directory, MANIFEST_NAME)) };
  }
}

function bundleAsRoot(root: string): ServerError {
  const problem = `model repository: '${root}' is a bundle: give its parent directory, '${dirname(root)}'`;
  return new ServerError("INVALID_ARGUMENT", problem);
}

function duplicate(name: string, owner: string, directory: string): ServerError {
  return new ServerError("ALREADY_EXISTS", `bundle '${name}' in '${directory}': '${owner}' has the same name and wins`);
}

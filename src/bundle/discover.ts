// Model repositories to bundles: each immediate subdirectory with a manifest.yaml is one, good or not.
//
// A bad bundle is an entry with its error and never stops the others; of two with one name the first root's wins. Called
// at start and by whoever looks for changes.

import { join, resolve } from "node:path";
import { messageOf, ServerError } from "../base/errors.ts";
import { isFile, listDirectory } from "../base/files.ts";
import type { Bundle } from "./bundle.ts";
import { loadBundle, MANIFEST_NAME } from "./load.ts";

/** A directory that wants to be a bundle. */
export interface Candidate {
  readonly name: string;
  readonly directory: string;
  /** Why it can't be one, where that shows before it is read: another root has a bundle of its name. */
  readonly error: ServerError | undefined;
}

export interface Discovery {
  /** In order of roots, then of names. */
  readonly candidates: readonly Candidate[];
  /** One for each root that is missing or unreadable. */
  readonly rootErrors: readonly ServerError[];
}

/** A bundle that was read, or the reason why it can't be served. */
export type Entry = Candidate &
  ({ readonly bundle: Bundle } | { readonly bundle: undefined; readonly error: ServerError });

/** Finds the candidates below `roots`. Hidden directories (`.git`, `..data` of mounted volumes) are no bundles. */
export function discoverBundles(roots: readonly string[]): Discovery {
  const candidates: Candidate[] = [];
  const rootErrors: ServerError[] = [];
  const owners = new Map<string, string>();
  for (const root of new Set(roots.map((each) => resolve(each)))) {
    try {
      for (const { name, kind } of listDirectory(root)) {
        const directory = join(root, name);
        if (kind !== "directory" || name.startsWith(".") || !hasManifest(directory)) continue;
        const owner = owners.get(name);
        owners.set(name, owner ?? directory);
        candidates.push({
          name,
          directory,
          error: owner === undefined ? undefined : duplicate(name, owner, directory),
        });
      }
    } catch (thrown) {
      rootErrors.push(new ServerError("NOT_FOUND", `model repository: ${messageOf(thrown)}`, { cause: thrown }));
    }
  }
  return { candidates, rootErrors };
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

/** A directory that can't be looked into is a candidate too: reading it then says why it is none. */
function hasManifest(directory: string): boolean {
  try {
    return listDirectory(directory).some(({ name }) => name === MANIFEST_NAME);
  } catch {
    return isFile(join(directory, MANIFEST_NAME));
  }
}

function duplicate(name: string, owner: string, directory: string): ServerError {
  return new ServerError("ALREADY_EXISTS", `bundle '${name}' in '${directory}': '${owner}' has the same name and wins`);
}

// What a hook threw, in words: its message, and where it came from, with files as `<bundle>/<file>:<line>:<column>`.
//
// Anything can be thrown, so nothing of it is believed: a getter of it may throw in turn. Frames of our own code and of
// the runtime are left out, for they are never the place to look. Used by hook.thread.ts.

import { messageOf } from "../base/errors.ts";
import { realPath } from "../base/files.ts";
import { HOOK_FAULTS_MAX, HOOK_STACK_FRAMES_MAX } from "../base/limits.ts";
import { codeRoot } from "../base/program.ts";
import { bounded } from "./output.ts";

/** `    at name (file:line:column)` or `    at file:line:column`. */
const FRAME = /^ *at (?:(.*?) \()?(\/.*?):(\d+):(\d+)\)?$/;

export interface Thrown {
  readonly message: string;
  /** Where it was thrown, as `m/model.ts:3:7`; undefined when nobody knows. */
  readonly place: string | undefined;
  /** Its frames, innermost first. */
  readonly stack: readonly string[];
}

/** The bundles that a thread has met, by which paths are shortened. */
export class Bundles {
  private readonly prefixes = new Map<string, string>();

  add(directory: string, name: string): void {
    this.prefixes.set(`${directory}/`, `${name}/`);
    // Modules know themselves by their real paths.
    this.prefixes.set(`${realPath(directory)}/`, `${name}/`);
  }

  shorten(text: string): string {
    let short = text;
    for (const [directory, name] of this.prefixes) short = short.replaceAll(directory, name);
    return short;
  }
}

/** Anything that a hook threw. Never throws. */
export function describeThrown(thrown: unknown, bundles: Bundles): Thrown {
  try {
    const frames = framesOf(thrown, bundles);
    const message = bounded(bundles.shorten(String(messageOf(thrown))));
    return { message, place: frames[0]?.place, stack: frames.map(({ text }) => text) };
  } catch {
    return { message: "it threw something that cannot be shown", place: undefined, stack: [] };
  }
}

/** A failed import: the compiler's findings have places of their own, and there may be several. Never throws. */
export function describeImport(thrown: unknown, bundles: Bundles): Thrown {
  try {
    const several = thrown instanceof AggregateError && thrown.errors.length > 0;
    const faults = several ? thrown.errors.slice(0, HOOK_FAULTS_MAX) : [thrown];
    const [first, ...others] = faults.map((fault) => describeFault(fault, bundles));
    const more = others.map(({ place, message }) => `; ${place ? `${place}: ` : ""}${message}`);
    return { ...first!, message: bounded(first!.message + more.join("")) };
  } catch {
    return describeThrown(thrown, bundles);
  }
}

function describeFault(fault: unknown, bundles: Bundles): Thrown {
  const described = describeThrown(fault, bundles);
  const at = (fault as { position?: { file: string; line: number; column: number } } | undefined)?.position;
  return at ? { ...described, place: bundles.shorten(`${at.file}:${at.line}:${at.column}`) } : described;
}

function framesOf(thrown: unknown, bundles: Bundles): { readonly place: string; readonly text: string }[] {
  const frames = [];
  const stack = thrown instanceof Error ? String(thrown.stack) : "";
  for (const line of stack.split("\n")) {
    const [, name, file, row, column] = FRAME.exec(line) ?? [];
    if (!file || file.startsWith(codeRoot)) continue;
    const place = bundles.shorten(`${file}:${row}:${column}`);
    frames.push({ place, text: name ? `${name} (${place})` : place });
    if (frames.length === HOOK_STACK_FRAMES_MAX) break;
  }
  return frames;
}

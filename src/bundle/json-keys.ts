// Keys that stand twice in one object of a JSON text, which JSON.parse takes without a word, keeping the last.
//
// Two readers that keep different ones would load different tensors from one file, so the file is refused. The text must
// already have been parsed. Used by safetensors.ts.

const STRING = /"(?:[^"\\]|\\.)*"/y;

/** The repeated keys of all objects in a valid JSON text, in order of their repetition. */
export function repeatedKeys(text: string): string[] {
  const repeated: string[] = [];
  /** One entry each open bracket: the keys seen so far of an object, null for a list. */
  const open: (Set<string> | null)[] = [];
  let keyComes = false;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === "{" || character === "[") {
      open.push(character === "{" ? new Set() : null);
      keyComes = character === "{";
    } else if (character === "}" || character === "]") {
      open.pop();
    } else if (character === ",") {
      keyComes = open.at(-1) !== null;
    } else if (character === '"') {
      STRING.lastIndex = at;
      const literal = STRING.exec(text)![0];
      at += literal.length - 1;
      if (!keyComes) continue;
      keyComes = false;
      const key: string = JSON.parse(literal);
      const keys = open.at(-1)!;
      if (keys.has(key)) repeated.push(key);
      keys.add(key);
    }
  }
  return repeated;
}

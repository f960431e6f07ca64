// The known word that somebody most likely meant: for unknown keys, commands, flags and names.
//
// Distance is Damerau-Levenshtein (insert, delete, replace, swap neighbours); nothing is suggested that differs in more
// than a third of its letters. Used by every parser that refuses a word.

/** The known word nearest to `word`, case ignored; undefined when none is near. The first of equally near ones. */
export function nearest(word: string, known: Iterable<string>): string | undefined {
  let best: string | undefined;
  let bestDistance = Infinity;
  for (const candidate of known) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance && distance <= Math.max(word.length, candidate.length) / 3) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** `, did you mean 'x'?`, or "" when nothing is near. */
export function didYouMean(word: string, known: Iterable<string>): string {
  const found = nearest(word, known);
  return found === undefined ? "" : `, did you mean '${found}'?`;
}

/** Edits between two words, where swapping neighbours is one (optimal string alignment). */
function editDistance(a: string, b: string): number {
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const replaced = previous[column - 1]! + (a[row - 1] === b[column - 1] ? 0 : 1);
      let edits = Math.min(replaced, previous[column]! + 1, current[column - 1]! + 1);
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      if (swapped) edits = Math.min(edits, beforePrevious[column - 2]! + 1);
      current.push(edits);
    }
    beforePrevious = previous;
    previous = current;
  }
  return previous[b.length]!;
}

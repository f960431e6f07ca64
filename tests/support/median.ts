// The one statistic of our benchmarks: on a shared machine a mean follows its worst moment, a median does not.
//
// Rounds of what is measured and of its baseline alternate, and ratios are taken round by round. Used by tests/bench.

/** The middle value; of an even number, the upper of the two. */
export function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
}

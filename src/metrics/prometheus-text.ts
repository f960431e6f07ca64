// Prometheus's text format 0.0.4, written from plain families of samples.
//
// Written by hand instead of through a client library: ours are counters in our own structs that a scrape reads, so a
// library's instruments would only hold a second copy. Used by worker-metrics.ts.

export const METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

export type Labels = Readonly<Record<string, string>>;

export interface Sample {
  readonly labels: Labels;
  readonly value: number;
  /** Appended to the family's name: `_bucket`, `_sum`, `_count` of a histogram. */
  readonly suffix?: string;
}

export interface Family {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly samples: readonly Sample[];
}

/** All families that have samples, one after another. Each sample gains the common labels that it does not have. */
export function renderFamilies(families: readonly Family[], common: Labels): string {
  let text = "";
  for (const { name, type, help, samples } of families) {
    if (samples.length === 0) continue;
    text += `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n`;
    for (const { labels, value, suffix = "" } of samples) {
      text += `${name}${suffix}${renderLabels({ ...labels, ...common, ...labels })} ${renderValue(value)}\n`;
    }
  }
  return text;
}

function renderLabels(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(value)}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function renderValue(value: number): string {
  if (value === Infinity) return "+Inf";
  if (value === -Infinity) return "-Inf";
  return Number.isNaN(value) ? "NaN" : String(value);
}

function escapeHelp(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}

function escapeLabel(text: string): string {
  return escapeHelp(text).replaceAll('"', '\\"');
}

/** Samples of one histogram from counts by bucket (each observation counted once, the last above all bounds). */
export function histogramSamples(
  labels: Labels,
  bounds: readonly number[],
  counts: ArrayLike<number>,
  sum: number,
): Sample[] {
  const samples: Sample[] = [];
  let total = 0;
  for (let bucket = 0; bucket < counts.length; bucket++) {
    total += counts[bucket]!;
    const bound = bounds[bucket];
    const le = bound === undefined ? "+Inf" : String(bound);
    samples.push({ suffix: "_bucket", labels: { ...labels, le }, value: total });
  }
  samples.push({ suffix: "_sum", labels, value: sum }, { suffix: "_count", labels, value: total });
  return samples;
}

/** Parses Prometheus' exposition format 0.0.4 and OpenMetrics samples. Malformed lines are skipped and counted. */
export interface Sample {
  readonly name: string;
  readonly labels: ReadonlyMap<string, string>;
  readonly value: number;
}

export interface MetricsText {
  readonly samples: readonly Sample[];
  /** Lines that are malformed, or beyond the limit. */
  readonly skipped: number;
}

const maxSamples = 100_000;
const maxLabels = 64;

export function parsePrometheusText(text: string, limit = maxSamples): MetricsText {
  const samples: Sample[] = [];
  let skipped = 0;
  for (const line of text.split(/\r?\n/)) {
    const trimmed = line.trim();
    if (trimmed === '' || trimmed.startsWith('#')) continue;
    const sample = samples.length < limit ? parseSample(trimmed) : undefined;
    if (sample === undefined) skipped++;
    else samples.push(sample);
  }
  return { samples, skipped };
}

/** A name, labels up to a brace outside of quotes, a value, and perhaps a timestamp and an OpenMetrics exemplar. */
const samplePattern =
  /^([a-zA-Z_:][\w:]*)(?:\s*\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\}\s*|\s+)(\S+)(?:\s+[+-]?[\d.]+)?(?:\s+#\s.*)?$/;
const labelPattern = /\s*([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,|$)/y;
const numberPattern = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;

function parseSample(line: string): Sample | undefined {
  const [, name, given = '', written = ''] = samplePattern.exec(line) ?? [];
  const value = parseValue(written);
  if (name === undefined || value === undefined) return undefined;
  const labels = new Map<string, string>();
  labelPattern.lastIndex = 0;
  while (labelPattern.lastIndex < given.trimEnd().length) {
    const [, key, text] = labels.size < maxLabels ? (labelPattern.exec(given) ?? []) : [];
    if (key === undefined || text === undefined) return undefined;
    labels.set(key, unescapeValue(text));
  }
  return { name, labels, value };
}

function unescapeValue(text: string): string {
  return text.replace(/\\(.)/g, (escape, character: string) => {
    if (character === 'n') return '\n';
    return character === '"' || character === '\\' ? character : escape;
  });
}

function parseValue(text: string): number | undefined {
  if (numberPattern.test(text)) return Number(text);
  if (/^[+-]?inf(?:inity)?$/i.test(text)) return text.startsWith('-') ? -Infinity : Infinity;
  return /^nan$/i.test(text) ? Number.NaN : undefined;
}

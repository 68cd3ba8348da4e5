/**
 * Parses Prometheus' exposition format 0.0.4 and OpenMetrics samples. Malformed lines are skipped and counted, so one bad
 * line does not hide the others.
 */
export interface Sample {
  readonly name: string;
  readonly labels: ReadonlyMap<string, string>;
  readonly value: number;
}

export interface MetricsText {
  readonly samples: readonly Sample[];
  /** As in `# TYPE name counter`. */
  readonly types: ReadonlyMap<string, string>;
  /** Lines that are malformed, or beyond the limit. */
  readonly skipped: number;
}

export const maxSamples = 100_000;
const maxLabels = 64;

export function parsePrometheusText(text: string, limit = maxSamples): MetricsText {
  const samples: Sample[] = [];
  const types = new Map<string, string>();
  let skipped = 0;
  for (const line of text.split(/\r?\n/)) {
    const trimmed = line.trim();
    if (trimmed === '') continue;
    if (trimmed.startsWith('#')) {
      const [, keyword, name, type] = trimmed.split(/[ \t]+/, 4);
      if (keyword === 'TYPE' && name !== undefined && type !== undefined && types.size < limit)
        types.set(name, type);
      continue;
    }
    const sample = samples.length < limit ? parseSample(trimmed) : undefined;
    if (sample === undefined) skipped++;
    else samples.push(sample);
  }
  return { samples, types, skipped };
}

const namePattern = /[a-zA-Z_:][\w:]*/y;
const labelPattern = /\s*([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,?)/y;
const numberPattern = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;
/** After the value: a timestamp and an OpenMetrics exemplar. */
const restPattern = /^(?:\s+[+-]?[\d.]+)?(?:\s+#\s.*)?$/;

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

function parseSample(line: string): Sample | undefined {
  const name = matchAt(namePattern, line, 0)?.[0];
  if (name === undefined) return undefined;
  const labels = new Map<string, string>();
  let at = name.length;
  while (line[at] === ' ' || line[at] === '\t') at++;
  if (line[at] === '{') {
    const end = parseLabels(line, at + 1, labels);
    if (end === undefined) return undefined;
    at = end;
  } else if (at === name.length) return undefined; // no space between name and value
  const [, given = '', rest = ''] = /^\s*(\S+)(.*)$/.exec(line.slice(at)) ?? [];
  const value = parseValue(given);
  return value === undefined || !restPattern.test(rest) ? undefined : { name, labels, value };
}

/** Returns the position after the closing brace. */
function parseLabels(line: string, from: number, labels: Map<string, string>): number | undefined {
  let at = from;
  for (let count = 0; count < maxLabels; count++) {
    const match = matchAt(labelPattern, line, at);
    if (match === null) break;
    labels.set(match[1]!, unescapeValue(match[2]!));
    at += match[0].length;
    if (match[3] === '') break;
  }
  while (line[at] === ' ' || line[at] === '\t') at++;
  return line[at] === '}' ? at + 1 : undefined;
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

/**
 * The text in which metrics are scraped (Prometheus' exposition format 0.0.4, and of OpenMetrics what differs on a line of
 * samples). Lines that are neither a sample nor a comment are passed over and counted: one bad exporter line must not hide
 * the others.
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
  /** Lines that could not be read, or were too many. */
  readonly skipped: number;
}

export const mostSamples = 100_000;
const mostLabels = 64;

export function parsePrometheusText(text: string, most = mostSamples): MetricsText {
  const samples: Sample[] = [];
  const types = new Map<string, string>();
  let skipped = 0;
  for (const line of text.split(/\r?\n/)) {
    const trimmed = line.trim();
    if (trimmed === '') continue;
    if (trimmed.startsWith('#')) {
      const [, keyword, name, type] = trimmed.split(/[ \t]+/, 4);
      if (keyword === 'TYPE' && name !== undefined && type !== undefined && types.size < most)
        types.set(name, type);
      continue;
    }
    const sample = samples.length < most ? parseSample(trimmed) : undefined;
    if (sample === undefined) skipped++;
    else samples.push(sample);
  }
  return { samples, types, skipped };
}

const namePattern = /[a-zA-Z_:][\w:]*/y;
const labelPattern = /\s*([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,?)/y;
const numberPattern = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;
/** Behind the value: a timestamp, and what an OpenMetrics sample was exemplified by. */
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
  } else if (at === name.length) return undefined; // nothing between the name and what follows
  const [, given = '', rest = ''] = /^\s*(\S+)(.*)$/.exec(line.slice(at)) ?? [];
  const value = parseValue(given);
  return value === undefined || !restPattern.test(rest) ? undefined : { name, labels, value };
}

/** Where the labels end, behind the brace. */
function parseLabels(line: string, from: number, labels: Map<string, string>): number | undefined {
  let at = from;
  for (let count = 0; count < mostLabels; count++) {
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

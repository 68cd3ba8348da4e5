/**
 * Counters of an engine over all its requests, summed over its ranks. vLLM, LMDeploy, llama.cpp and our server count drafted
 * steps (`drafts`), draft tokens and accepted tokens. Others count less, so steps follow from a gauge or a draft length:
 *
 *   SGLang        counts verifications, and has the accepted length of the last batches as a gauge
 *   TensorRT-LLM  counts tokens; steps follow from the configured draft length, or from a gauge
 *   TGI           has a histogram whose observations are the accepted tokens of a step
 */
import type { EngineName, Speculation } from '../observation.js';
import { checkClaim } from './claim.js';

/** `perPosition` and `configuration` show the draft length in their labels. */
type Field = Exclude<Count, 'draftLength'> | 'perPosition' | 'configuration';

/** Metric names of an engine, without `_total`. */
export type CounterNames = Readonly<Partial<Record<Field, string>>>;

/** vLLM's names, which others use under their own prefix. */
export const vllmCounters = (prefix: string, outputTokens: string): CounterNames => ({
  drafts: `${prefix}spec_decode_num_drafts`,
  draftTokens: `${prefix}spec_decode_num_draft_tokens`,
  acceptedTokens: `${prefix}spec_decode_num_accepted_tokens`,
  perPosition: `${prefix}spec_decode_num_accepted_tokens_per_pos`,
  outputTokens: `${prefix}${outputTokens}`,
});

/** Null for what the engine does not count. */
const noCounts = {
  /** Steps that verified a draft. */
  drafts: null as number | null,
  draftTokens: null as number | null,
  acceptedTokens: null as number | null,
  outputTokens: null as number | null,
  /** Max draft tokens of a step, where the configuration or a counter of each position is exported. */
  draftLength: null as number | null,
  /** A gauge of the last batches, bonus token included. */
  recentLength: null as number | null,
};
type Counts = typeof noCounts;
type Count = keyof Counts;

export interface EngineCounters extends Readonly<Counts> {
  readonly engine: EngineName;
  readonly model: string | null;
}

const maxModels = 64;
const maxPositions = 1024;

interface CountingEngine {
  readonly name: EngineName;
  readonly metricPrefix: RegExp;
  readonly counters: CounterNames;
}

/** One entry per model that drafts; none for engines that do not draft or do not count. */
export function readEngineCounters(
  samples: readonly Sample[],
  engines: readonly CountingEngine[],
): readonly EngineCounters[] {
  // Our server exports vLLM's names besides its own: the first engine whose prefix occurs wins.
  const engine = engines.find(({ metricPrefix }) => samples.some(({ name }) => metricPrefix.test(name)));
  if (engine === undefined) return [];
  const fields = new Map(Object.entries(engine.counters).map(([field, name]) => [name, field as Field]));
  const models = new Map<string, Counts>();
  for (const sample of samples) {
    const field = fields.get(sample.name.replace(/_total$/, ''));
    const model = sample.labels.get('model_name') ?? sample.labels.get('model') ?? '';
    if (field === undefined || !Number.isFinite(sample.value)) continue;
    if (models.size < maxModels && !models.has(model)) models.set(model, { ...noCounts });
    const counts = models.get(model);
    if (counts !== undefined) addSample(counts, field, sample);
  }
  return [...models]
    .filter(([, counts]) => counted.some((name) => counts[name] !== null))
    .map(([model, counts]) => ({
      engine: engine.name,
      model: model === '' ? null : model.slice(0, 256),
      ...counts,
    }));
}

/** Without any of these nothing can be derived. */
const counted = ['drafts', 'acceptedTokens', 'recentLength'] as const;

function addSample(counts: Counts, field: Field, { labels, value }: Sample): void {
  if (field === 'recentLength') counts[field] = Math.max(value, counts[field] ?? 0);
  else if (field !== 'perPosition' && field !== 'configuration') counts[field] = value + (counts[field] ?? 0);
  else {
    const given =
      field === 'perPosition'
        ? Number(labels.get('position')) + 1
        : Number(labels.get('max_draft_len') ?? labels.get('num_draft_tokens'));
    if (Number.isInteger(given) && given > 0 && given <= maxPositions)
      counts.draftLength = Math.max(given, counts.draftLength ?? 0);
  }
}

/** What happened between two scrapes, or since the start; null where nothing did, or it is unknown. */
export function differCounters(
  before: EngineCounters | undefined,
  after: EngineCounters,
): Speculation | null {
  const last = before !== undefined && hasFallen(before, after) ? undefined : before;
  const difference = (read: (counters: EngineCounters) => number | null): Difference => {
    const [now, then] = [read(after), last === undefined ? 0 : read(last)];
    return now === null ? null : Math.round(now - (then ?? 0));
  };
  const accepted = difference(({ acceptedTokens }) => acceptedTokens);
  const proposed = difference(({ draftTokens }) => draftTokens);
  const counted = countSteps(after, { drafts: difference(({ drafts }) => drafts), accepted, proposed });
  if (counted === undefined || counted.steps <= 0) return null;
  // Counters are not read atomically: accepted tokens may be a step ahead of the draft length.
  for (const draftLength of [after.draftLength, null]) {
    const reading = checkClaim({ ...counted, proposed, draftLength });
    if ('speculation' in reading) return reading.speculation;
  }
  return null;
}

/** A counter that fell was reset and counts from zero, as in Prometheus. */
function hasFallen(before: EngineCounters, after: EngineCounters): boolean {
  const counted = ['drafts', 'draftTokens', 'acceptedTokens'] as const;
  return counted.some((name) => (after[name] ?? 0) < (before[name] ?? 0));
}

type Difference = number | null;

function countSteps(
  after: EngineCounters,
  { drafts, accepted, proposed }: Readonly<Record<'drafts' | 'accepted' | 'proposed', Difference>>,
): Pick<Speculation, 'steps' | 'accepted' | 'evidence'> | undefined {
  const { draftLength, recentLength } = after;
  if (drafts !== null && accepted !== null) return { steps: drafts, accepted, evidence: 'reported' };
  const recent = recentLength !== null && recentLength >= 1 ? recentLength : undefined;
  if (drafts !== null && recent !== undefined)
    return { steps: drafts, accepted: Math.round(drafts * (recent - 1)), evidence: 'estimated' };
  if (accepted === null) return undefined;
  if (proposed !== null && draftLength !== null)
    return { steps: Math.round(proposed / draftLength), accepted, evidence: 'derived' };
  return recent === undefined || recent === 1
    ? undefined
    : { steps: Math.round(accepted / (recent - 1)), accepted, evidence: 'estimated' };
}

/** Over drafted steps since the engine's start; undefined before the first. */
export function draftedLength({ drafts, acceptedTokens }: EngineCounters): number | undefined {
  return drafts === null || acceptedTokens === null || !(drafts > 0)
    ? undefined
    : 1 + acceptedTokens / drafts;
}

/**
 * Over all passes since the engine's start, drafted or not: each pass gives one token besides the accepted ones. This is
 * what drafting gains overall; with n-gram drafters most passes have no draft.
 */
export function tokensPerPass({ outputTokens, acceptedTokens }: EngineCounters): number | undefined {
  if (outputTokens === null || acceptedTokens === null) return undefined;
  const passes = outputTokens - acceptedTokens;
  return passes > 0 ? outputTokens / passes : undefined;
}

/** Parses Prometheus' exposition format 0.0.4 and OpenMetrics samples. Comments and malformed lines are skipped. */
export interface Sample {
  readonly name: string;
  readonly labels: ReadonlyMap<string, string>;
  readonly value: number;
}

const maxSamples = 100_000;
const maxLabels = 64;

export function parsePrometheusText(text: string): readonly Sample[] {
  const samples: Sample[] = [];
  for (const line of text.split(/\r?\n/)) {
    const sample = parseSample(line.trim());
    if (sample !== undefined) samples.push(sample);
    if (samples.length >= maxSamples) break;
  }
  return samples;
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

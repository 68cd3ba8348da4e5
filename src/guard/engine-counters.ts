/**
 * What engines count over all their requests. vLLM, LMDeploy, llama.cpp and our own server count steps (`drafts`), draft
 * tokens and accepted ones; the others less, so that steps follow from a gauge or a draft length and the evidence is weaker:
 *
 *   SGLang        counts verifications, and has the accepted length of the last moments as a gauge
 *   TensorRT-LLM  counts tokens; steps follow from the draft length of its configuration, or from a gauge
 *   TGI           a histogram whose observations are the accepted tokens of a step
 *
 * Counters are summed over the ranks and engines of a model. What matters is the difference between two scrapes; counters
 * that fell were reset in between and are counted from zero, as Prometheus does.
 */
import type { Sample } from './prometheus-text.js';
import type { EngineName, Evidence, Speculation } from './request-record.js';
import { checkClaim } from './speculation/reading.js';

export interface EngineCounters {
  readonly engine: EngineName;
  readonly model: string | null;
  /** Null where the engine does not count them. */
  readonly drafts: number | null;
  readonly draftTokens: number | null;
  readonly acceptedTokens: number | null;
  /** [i] is the number of steps that accepted more than i draft tokens; empty where it is not told. */
  readonly perPosition: readonly number[];
  /** Most draft tokens of a step, where a configuration is shown. */
  readonly draftLength: number | null;
  /** A gauge of the last moments, bonus token included. */
  readonly recentLength: number | null;
}

const mostModels = 64;
const mostPositions = 1024;

/** One entry for each model that drafts. Engines that draft nothing, or hide it, have none. */
export function readEngineCounters(samples: readonly Sample[]): readonly EngineCounters[] {
  // Our own server counts under vLLM's names, and has some of its own.
  const speaksLikeVllm = samples.some(({ name }) => name.startsWith('mistletoe_')) ? 'mistletoe' : 'vllm';
  return families.flatMap(({ engine = speaksLikeVllm, fields }) => {
    const known = new Map(
      Object.entries(fields).flatMap(([field, names]) => names.map((name) => [name, field])),
    );
    const models = new Map<string, Sums>();
    for (const sample of samples) {
      const field = known.get(sample.name.replace(/_total$/, '')) as Field | undefined;
      if (field === undefined || !Number.isFinite(sample.value)) continue;
      const model = sample.labels.get('model_name') ?? sample.labels.get('model') ?? '';
      const sums = models.get(model) ?? { values: new Map<Field, number>(), positions: [] };
      if (!models.has(model) && models.size >= mostModels) continue;
      models.set(model, sums);
      addSample(sums, field, sample);
    }
    return [...models]
      .map(([model, sums]) => toCounters(engine, model, sums))
      .filter((each) => each !== undefined);
  });
}

type Field = 'drafts' | 'draftTokens' | 'accepted' | 'perPosition' | 'length' | 'configuration';

interface Family {
  readonly engine?: EngineName;
  /** Names without `_total`. */
  readonly fields: Readonly<Partial<Record<Field, readonly string[]>>>;
}

const countersOf = (prefix: string): Family['fields'] => ({
  drafts: [`${prefix}spec_decode_num_drafts`],
  draftTokens: [`${prefix}spec_decode_num_draft_tokens`],
  accepted: [`${prefix}spec_decode_num_accepted_tokens`],
  perPosition: [`${prefix}spec_decode_num_accepted_tokens_per_pos`],
});

const families: readonly Family[] = [
  { fields: countersOf('vllm:') },
  { engine: 'lmdeploy', fields: countersOf('lmdeploy:') },
  { engine: 'llama-cpp', fields: countersOf('llamacpp:') },
  {
    engine: 'sglang',
    fields: { drafts: ['sglang:spec_verify_calls'], length: ['sglang:spec_accept_length'] },
  },
  {
    engine: 'tensorrt-llm',
    fields: {
      draftTokens: ['trtllm_spec_decode_num_draft_tokens'],
      accepted: ['trtllm_spec_decode_num_accepted_tokens'],
      perPosition: ['trtllm_spec_decode_num_accepted_tokens_per_pos'],
      length: ['trtllm_spec_decode_acceptance_length'],
      configuration: ['trtllm_speculative_config_info'],
    },
  },
  {
    engine: 'tgi',
    fields: { drafts: ['tgi_request_skipped_tokens_count'], accepted: ['tgi_request_skipped_tokens_sum'] },
  },
];

interface Sums {
  readonly values: Map<Field, number>;
  readonly positions: number[];
}

function addSample({ values, positions }: Sums, field: Field, { labels, value }: Sample): void {
  if (field === 'perPosition') {
    const position = Number(labels.get('position'));
    if (!Number.isInteger(position) || position < 0 || position >= mostPositions) return;
    while (positions.length <= position) positions.push(0);
    positions[position]! += value;
  } else if (field === 'configuration') {
    const length = Number(labels.get('max_draft_len') ?? labels.get('num_draft_tokens'));
    if (Number.isInteger(length) && length > 0 && length <= mostPositions) values.set(field, length);
  } else if (field === 'length') values.set(field, Math.max(value, values.get(field) ?? 0));
  else values.set(field, value + (values.get(field) ?? 0));
}

function toCounters(
  engine: EngineName,
  model: string,
  { values, positions }: Sums,
): EngineCounters | undefined {
  const valueOf = (field: Field): number | null => values.get(field) ?? null;
  const counters = {
    engine,
    model: model === '' ? null : model.slice(0, 256),
    drafts: valueOf('drafts'),
    draftTokens: valueOf('draftTokens'),
    acceptedTokens: valueOf('accepted'),
    perPosition: positions,
    draftLength: valueOf('configuration') ?? (positions.length > 0 ? positions.length : null),
    recentLength: valueOf('length'),
  };
  const isEmpty =
    counters.drafts === null && counters.acceptedTokens === null && counters.recentLength === null;
  return isEmpty ? undefined : counters;
}

/** What happened between two scrapes, or since the start; null where nothing did, or it cannot be told. */
export function differCounters(
  before: EngineCounters | undefined,
  after: EngineCounters,
): Speculation | null {
  const last = before !== undefined && hasFallen(before, after) ? undefined : before;
  const difference = (read: (counters: EngineCounters) => number | null): number | null => {
    const [now, then] = [read(after), last === undefined ? 0 : read(last)];
    return now === null ? null : Math.round(now - (then ?? 0));
  };
  const accepted = difference(({ acceptedTokens }) => acceptedTokens);
  const proposed = difference(({ draftTokens }) => draftTokens);
  const counted = countSteps(after, { drafts: difference(({ drafts }) => drafts), accepted, proposed });
  if (counted === undefined || counted.steps <= 0) return null;
  const { evidence, steps } = counted;
  const claim = { evidence, steps, accepted: counted.accepted, proposed };
  const { draftLength } = after;
  const positions = after.perPosition.map(
    (_, index) => difference(({ perPosition }) => perPosition[index] ?? 0) ?? 0,
  );
  const histogram = toHistogram(positions, steps);
  const claims = [{ ...claim, draftLength, ...(histogram === null ? {} : { histogram }) }, claim];
  for (const each of claims) {
    const reading = checkClaim(each); // counters are not read at one moment: a histogram may be a step ahead
    if ('speculation' in reading) return reading.speculation;
  }
  return null;
}

function hasFallen(before: EngineCounters, after: EngineCounters): boolean {
  const pairs = [
    [before.drafts, after.drafts],
    [before.draftTokens, after.draftTokens],
    [before.acceptedTokens, after.acceptedTokens],
  ];
  return pairs.some(([then, now]) => (now ?? 0) < (then ?? 0));
}

interface Differences {
  readonly drafts: number | null;
  readonly accepted: number | null;
  readonly proposed: number | null;
}

interface CountedSteps {
  readonly steps: number;
  readonly accepted: number;
  readonly evidence: Evidence;
}

function countSteps(
  after: EngineCounters,
  { drafts, accepted, proposed }: Differences,
): CountedSteps | undefined {
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

/** From steps that accepted more than i to steps that accepted j. */
function toHistogram(positions: readonly number[], steps: number): number[] | null {
  if (positions.length === 0) return null;
  const atLeast = [steps, ...positions, 0];
  const histogram = atLeast.slice(0, -1).map((count, index) => count - atLeast[index + 1]!);
  return histogram.every((count) => count >= 0) ? histogram : null;
}

/** Since the engine's start, for people; undefined before the first step. */
export function lengthSinceStart({ drafts, acceptedTokens }: EngineCounters): number | undefined {
  return drafts === null || acceptedTokens === null || !(drafts > 0)
    ? undefined
    : 1 + acceptedTokens / drafts;
}

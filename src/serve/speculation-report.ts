/**
 * What drafts came to in one request, in vLLM's shape (`metrics.speculative_decoding`), so that tools for vLLM read it.
 * Steps without a draft, which `auto` makes where drafting does not pay, are no steps there.
 */
import type { StepRecord } from '../decode/acceptance.js';
import type { Generation } from '../decode/plain.js';
import type { SpeculativeGeneration } from '../decode/speculative.js';
import { isSpeculative } from '../decode/speculative-text.js';
import { parseDraftPolicy } from '../draft/policy.js';
import type { MetricsLevel } from './request-schema.js';

/** With which drafter, and how much it was to draft where that was said. */
export interface Drafting {
  readonly drafter: string;
  readonly draft: string | undefined;
  /** Whether other drafters take over where its drafts do not pay. */
  readonly isGuarded: boolean;
}

export interface SpeculationReport {
  readonly engine: 'mistletoe';
  /** Null for several answers, and where nothing was drafted. */
  readonly speculative_decoding: Readonly<Record<string, number | boolean | readonly number[]>> | null;
  readonly mistletoe: Readonly<Record<string, unknown>> | null;
}

/** Undefined where nobody asked. */
export function reportSpeculation(
  generations: readonly Generation[],
  drafting: Drafting | undefined,
  level: MetricsLevel,
): SpeculationReport | undefined {
  if (level === 'none') return undefined;
  const [generation, ...others] = generations;
  const isSingle = generation !== undefined && others.length === 0;
  if (!isSingle || drafting === undefined || !isSpeculative(generation))
    return { engine: 'mistletoe', speculative_decoding: null, mistletoe: null };
  const drafted = generation.steps.filter(({ proposed }) => proposed > 0);
  const summary = drafted.length === 0 ? null : summarise(drafted, drafting);
  const isDetailed = level === 'detailed' && summary !== null;
  return {
    engine: 'mistletoe',
    speculative_decoding: isDetailed
      ? {
          ...summary,
          per_step_accepted: drafted.map(({ accepted }) => accepted),
          per_step_drafted: drafted.map(({ proposed }) => proposed),
        }
      : summary,
    mistletoe: {
      drafter: drafting.drafter,
      draft: drafting.draft ?? null,
      plain_steps: generation.steps.length - drafted.length,
      drafter_failed: generation.drafterFailed,
      prefill_ms: Math.round(generation.prefillMs),
      decode_ms: Math.round(generation.decodeMs),
      ...reportGuarding(generation, isDetailed),
    },
  };
}

/** Which drafter made which of the steps, and when another one took over. */
function reportGuarding({ guarding, steps }: SpeculativeGeneration, isDetailed: boolean): object {
  if (guarding === undefined) return {};
  const drafted = steps.filter(({ proposed }) => proposed > 0);
  return {
    ladder: guarding.ladder,
    switches: guarding.switches,
    by_drafter: countByDrafter(guarding.ladder, steps),
    ...(isDetailed ? { per_step_rung: drafted.map(({ drafter }) => drafter ?? 0) } : {}),
  };
}

export interface DrafterCounts {
  num_spec_steps: number;
  num_accepted_draft_tokens: number;
  num_draft_tokens: number;
}

/** `names`: of the rungs of a guarded request, or of the one drafter. */
export function countByDrafter(
  names: readonly string[],
  steps: readonly StepRecord[],
): Readonly<Record<string, DrafterCounts>> {
  const counts = new Map<string, DrafterCounts>();
  for (const { proposed, accepted, drafter = 0 } of steps) {
    const name = names[drafter];
    if (proposed === 0 || name === undefined) continue;
    const count = counts.get(name) ?? {
      ...{ num_spec_steps: 0, num_accepted_draft_tokens: 0, num_draft_tokens: 0 },
    };
    count.num_spec_steps += 1;
    count.num_accepted_draft_tokens += accepted;
    count.num_draft_tokens += proposed;
    counts.set(name, count);
  }
  return Object.fromEntries(counts);
}

function summarise(
  drafted: readonly StepRecord[],
  { draft }: Drafting,
): NonNullable<SpeculationReport['speculative_decoding']> {
  const total = (count: (step: StepRecord) => number): number =>
    drafted.reduce((sum, step) => sum + count(step), 0);
  const accepted = total((step) => step.accepted);
  const proposed = total((step) => step.proposed);
  const policy = draft === undefined ? undefined : parseDraftPolicy(draft);
  const least = policy?.kind === 'chain' ? policy.length : 0;
  const levels = drafted.reduce((deepest, { depth }) => Math.max(deepest, depth), least);
  const histogram = Array.from({ length: levels + 1 }, () => 0);
  for (const step of drafted) histogram[step.accepted]! += 1;
  return {
    mean_acceptance_length: 1 + accepted / drafted.length,
    draft_acceptance_rate: accepted / proposed,
    acceptance_histogram: histogram,
    num_spec_steps: drafted.length,
    num_accepted_draft_tokens: accepted,
    num_draft_tokens: proposed,
    num_spec_tokens: levels,
    is_tree: drafted.some((step) => step.proposed > step.depth),
  };
}

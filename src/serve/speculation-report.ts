/**
 * Draft metrics of one request, in vLLM's format (`metrics.speculative_decoding`). As there, steps without a draft, which
 * `auto` makes when drafting does not pay, do not count.
 */
import type { StepRecord } from '../decode/acceptance.js';
import type { Generation } from '../decode/request.js';
import type { SpeculativeGeneration } from '../decode/request.js';
import { isSpeculative } from '../decode/request.js';
import { parseDraftPolicy } from '../draft/tree/policy.js';
import type { MetricsLevel } from './request-schema.js';

export interface Drafting {
  readonly drafter: string;
  readonly draft: string | undefined;
}

/** Pools the steps of several answers and also lists each answer. */
export type SpeculationReport = NonNullable<ReturnType<typeof reportSpeculation>>;

/** Undefined at level `none`. */
export function reportSpeculation(
  generations: readonly Generation[],
  drafting: Drafting | undefined,
  level: MetricsLevel,
) {
  if (level === 'none') return undefined;
  const report = (answers: readonly Generation[]) => reportAnswers(answers, drafting, level);
  return {
    engine: 'mistletoe',
    ...report(generations),
    ...(generations.length > 1
      ? { choices: generations.map((generation, index) => ({ index, ...report([generation]) })) }
      : {}),
  };
}

/** Lists of steps follow the order of the answers. */
function reportAnswers(
  generations: readonly Generation[],
  drafting: Drafting | undefined,
  level: MetricsLevel,
) {
  const answers = generations.filter(isSpeculative);
  if (drafting === undefined || answers.length === 0) return { speculative_decoding: null, mistletoe: null };
  const steps = answers.flatMap((answer) => answer.steps);
  const drafted = steps.filter(({ proposed }) => proposed > 0);
  const summary = drafted.length === 0 ? null : summarize(drafted, drafting);
  const isDetailed = level === 'detailed' && summary !== null;
  const maxMs = (milliseconds: (answer: SpeculativeGeneration) => number): number =>
    Math.round(answers.reduce((max, answer) => Math.max(max, milliseconds(answer)), 0));
  return {
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
      plain_steps: steps.length - drafted.length,
      drafter_failed: answers.some(({ drafterFailed }) => drafterFailed),
      // Answers to one request are decoded at the same time: the maximum is closest to the client's waiting time.
      preparation_ms: maxMs(({ preparationMs }) => preparationMs),
      prefill_ms: maxMs(({ prefillMs }) => prefillMs),
      decode_ms: maxMs(({ decodeMs }) => decodeMs),
    },
  };
}

export interface DrafterCounts {
  readonly num_spec_steps: number;
  readonly num_accepted_draft_tokens: number;
  readonly num_draft_tokens: number;
}

/** Empty without a drafted step. */
export function countByDrafter(
  drafter: string,
  steps: readonly StepRecord[],
): Readonly<Record<string, DrafterCounts>> {
  const drafted = steps.filter(({ proposed }) => proposed > 0);
  if (drafted.length === 0) return {};
  const { accepted, proposed } = countDrafts(drafted);
  const counts = {
    num_spec_steps: drafted.length,
    num_accepted_draft_tokens: accepted,
    num_draft_tokens: proposed,
  };
  return { [drafter]: counts };
}

/** Counts over steps with a draft; the histogram has at least `minDepth` + 1 entries. */
export function countDrafts(drafted: readonly StepRecord[], minDepth = 0) {
  const depth = drafted.reduce((deepest, step) => Math.max(deepest, step.depth), minDepth);
  const histogram = Array.from({ length: depth + 1 }, () => 0);
  const sum = { accepted: 0, proposed: 0 };
  for (const { accepted, proposed } of drafted) {
    histogram[accepted]! += 1;
    sum.accepted += accepted;
    sum.proposed += proposed;
  }
  return { ...sum, histogram, depth, isTree: drafted.some((step) => step.proposed > step.depth) };
}

function summarize(drafted: readonly StepRecord[], { draft }: Drafting) {
  const policy = draft === undefined ? undefined : parseDraftPolicy(draft);
  const minDepth = policy?.kind === 'chain' ? policy.length : 0;
  const { accepted, proposed, histogram, depth, isTree } = countDrafts(drafted, minDepth);
  return {
    mean_acceptance_length: 1 + accepted / drafted.length,
    draft_acceptance_rate: accepted / proposed,
    acceptance_histogram: histogram,
    num_spec_steps: drafted.length,
    num_accepted_draft_tokens: accepted,
    num_draft_tokens: proposed,
    num_spec_tokens: depth,
    is_tree: isTree,
  };
}

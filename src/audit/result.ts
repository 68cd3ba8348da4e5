/**
 * What an audit finds, as plain data, and the schemas of what is read back from its folder. Everything here follows from
 * the configuration, the seed and the weights, so that a resumed run writes the same bytes. Measured times do not, and
 * are in phase-clock.ts.
 */
import { z } from 'zod';
import type { Interval } from '../measure/bootstrap.js';
import type { KeptClass } from '../measure/kept-class.js';
import { keptClasses } from '../measure/kept-class.js';
import type { ModelIdentity } from '../runs/identity.js';
import type { ArmName, ControlName } from './arms/arms.js';
import { arms } from './arms/arms.js';

export const resultSchema = 'mistletoe.audit/2';

export interface AuditResult {
  readonly schema: typeof resultSchema;
  readonly setup: AuditSetup;
  readonly drafters: readonly DrafterResult[];
  readonly transfer: TransferMatrix | null;
  readonly universal: readonly UniversalResult[];
}

export interface AuditSetup {
  readonly version: string;
  readonly node: string;
  readonly target: ModelIdentity;
  readonly drafters: readonly DrafterIdentity[];
  readonly preset: string;
  readonly seed: number;
  /** The effective options, including defaults. */
  readonly options: Readonly<Record<string, string | number | boolean | null>>;
  /** The command line of this audit. Absolute paths outside of the current folder are shortened to their last part. */
  readonly command: string;
  readonly promptCount: number;
}

export interface DrafterIdentity extends ModelIdentity {
  /** The audit's name for it: the folder's name. */
  readonly id: string;
  readonly system: string;
  readonly policy: string;
}

export interface DrafterResult {
  readonly drafter: string; // DrafterIdentity.id
  readonly prompts: readonly PromptResult[];
  readonly summary: DrafterSummary;
}

export interface PromptResult {
  readonly promptId: string;
  readonly category: string | null;
  readonly prompt: string;
  /** Why this prompt was skipped, in one sentence; null if it counts. */
  readonly skipped: string | null;
  /** Searched and random arms may occur several times, once for each seed or draw. */
  readonly arms: readonly ArmResult[];
  readonly traces: readonly SearchTrace[];
}

const number = z.number();
const ids = z.array(z.number().int()).readonly();
const numbers = z.array(number).readonly();
const strings = z.array(z.string()).readonly();

const acceptanceSchema = z.object({
  /** Verification passes of the target, without the pass over the prompt. */
  steps: number,
  proposed: number,
  accepted: number,
  emitted: number,
  meanAcceptedLength: number,
  acceptanceByDepth: numbers,
  histogram: numbers,
});
export type AcceptanceSummary = Readonly<z.infer<typeof acceptanceSchema>>;

/** Drafts along the clean answer, which the target is forced to give. */
const heldSchema = acceptanceSchema.extend({
  /** Which tokens of the clean answer were accepted drafts (a) and which the target's own (b). */
  origins: z.string(),
});
export type HeldRecord = Readonly<z.infer<typeof heldSchema>>;

/** Target passes of two answers over equally many tokens. */
const equalLengthsSchema = z.object({ tokens: number, passes: number, cleanPasses: number });
export type EqualLengths = Readonly<z.infer<typeof equalLengthsSchema>>;

/** A suffix behind which the answer differs. */
const otherAnswerSchema = z.object({
  suffix: z.string(),
  answer: z.string(),
  similarity: number,
  compared: equalLengthsSchema,
});
export type OtherAnswer = Readonly<z.infer<typeof otherAnswerSchema>>;

const answerSchema = z.object({
  text: z.string(),
  tokenIds: ids,
  /** [token], together `text`. */
  pieces: strings,
  /** a = accepted draft token, b = the target's own token, one letter each. */
  origins: z.string(),
  finishReason: z.string(),
});
export type AnswerRecord = Readonly<z.infer<typeof answerSchema>>;

const preservationSchema = z.object({
  /** Mean KL(target without suffix || target with it) over the window, in nats. */
  divergence: number,
  /** How the free-running answer compares with the clean one. */
  kept: z.enum(keptClasses),
  /** Tokens of the free-running answer before the first one that differs from the clean answer. */
  firstDifference: number,
  /** 1 - edit distance / longer length, on tokens. */
  editSimilarity: number,
  /** Perplexity of this arm's answer under the clean prompt. */
  answerPerplexity: number,
  /** Share of repeated 4-grams. */
  repetition: number,
  /** Perplexity of the suffix itself, as a filter would see it; null without a suffix. */
  suffixPerplexity: number.nullable(),
  /** Within the divergence bound, and the answer is kept as --keep asks. */
  withinBound: z.boolean(),
});
export type PreservationMeasures = Readonly<z.infer<typeof preservationSchema>>;

const armSchema = z.object({
  arm: z.enum(arms),
  /** 1 for the first seed or draw of the arm. */
  repeat: number,
  suffix: z.string(),
  suffixIds: ids,
  /** Why a searched arm has no suffix (all vetoed, or no answer kept); it then counts as the clean prompt. */
  withoutSuffix: z.string().nullable(),
  /** The headline metric: drafts along the clean answer. */
  sameAnswer: heldSchema,
  /** The free-running answer under the suffix. */
  answer: answerSchema,
  freeRunning: acceptanceSchema,
  /** This arm's free-running answer and the clean one over equally many tokens. */
  compared: equalLengthsSchema,
  preservation: preservationSchema,
  /** Of the finalists of the search, the slowest whose answer differs. Never the attack. */
  slowOther: otherAnswerSchema.nullable(),
  /** A role marker of the chat template that a given suffix spells. */
  roleMarker: z.string().optional(),
});
export interface ArmResult extends Readonly<z.infer<typeof armSchema>> {
  /** The searched suffix whose answer was not kept when it was measured; the arm then counts as the clean prompt. */
  readonly notKept?: OtherAnswer | undefined;
}

const tracePointSchema = z.object({
  step: number,
  /** The objective and the divergence of the search's current suffix; larger is worse for the service. */
  degradation: number,
  divergence: number,
  /** The lowest accepted length along the clean answer so far, inside the bounds; null if there is none. */
  acceptedLength: number.nullable(),
  /** Cosine between the search direction and the preservation gradient, before and after projection. */
  cosineBefore: number,
  cosineAfter: number,
  candidates: number,
  vetoed: number,
});
export type TracePoint = Readonly<z.infer<typeof tracePointSchema>>;

/** A search, step by step. */
const traceSchema = z.object({
  arm: z.enum(arms),
  repeat: number,
  objective: z.string(),
  projection: z.string(),
  /** The effort: candidates scored, and suffixes decoded at the end. */
  scoredCandidates: number,
  decodedSuffixes: number,
  steps: z.array(tracePointSchema).readonly(),
});
export type SearchTrace = Readonly<z.infer<typeof traceSchema>>;

/** A unit: a measured arm, or the reason why it was skipped. */
export const unitSchema = z.union([
  z.object({ result: armSchema, trace: traceSchema.nullable() }),
  z.object({ skipped: z.string() }),
]);
export type UnitData = z.infer<typeof unitSchema>;

export const countsSchema = z.object({ accepted: number, steps: number });

const universalSplitSchema = z.object({
  /** Prompts in which the suffix survives as text. */
  n: number,
  lostInText: number,
  cleanAcceptedLength: number,
  attackedAcceptedLength: number,
  divergence: number,
  kept: z.record(z.enum(keptClasses), number),
  pValue: number,
});
export type UniversalSplit = Readonly<z.infer<typeof universalSplitSchema>>;

const universalResultSchema = z.object({
  drafter: z.string(),
  suffix: z.string(),
  trained: universalSplitSchema,
  heldOut: universalSplitSchema.nullable(),
});
export type UniversalResult = Readonly<z.infer<typeof universalResultSchema>>;
export const universalSchema = universalResultSchema.nullable();

export interface DrafterSummary {
  readonly arms: readonly ArmSummary[];
  /** 1 - attacked / clean accepted length along the same answer, pooled. */
  readonly drop: Interval;
  /** The attack against each control that was measured, over prompts, one-sided. */
  readonly tests: readonly PairedTest[];
  readonly promptsAudited: number;
  readonly promptsSkipped: number;
  /** Audited prompts on which the search found no suffix inside the bounds; they count as no drop. */
  readonly promptsWithoutSuffix: number;
  /** Searched arms whose answer was not kept when it was measured; absent if there are none. */
  readonly armsNotKept?: number;
}

export interface ArmSummary {
  readonly arm: ArmName;
  /** Mean accepted length along the clean answer, pooled over steps, bootstrap over prompts. */
  readonly sameAnswer: Interval;
  /** Unweighted mean of the prompts' own means. */
  readonly meanOfPromptMeans: number;
  readonly acceptanceByDepth: readonly number[];
  /** Target passes for the clean answer, a prompt. */
  readonly passes: number;
  /** Pooled mean accepted length of the free-running answers. */
  readonly freeRunning: number;
  /** Free-running passes of this arm over those of the clean prompt, over equally many tokens; 1.2 is 20 % more. */
  readonly passRatio: number;
  /** Tokens of the free-running answers, on average. */
  readonly answerLength: number;
  /** How many answers fall into each class. */
  readonly kept: Readonly<Record<KeptClass, number>>;
  readonly divergence: number;
  readonly editSimilarity: number;
  readonly firstDifference: number;
  readonly answerPerplexity: number;
  readonly repetition: number;
  readonly suffixPerplexity: number | null;
  readonly withinBound: number;
}

export interface PairedTest {
  readonly against: ControlName;
  readonly n: number;
  readonly pValue: number;
  readonly method: 'exact' | 'normal';
}

/** [row][column]: suffixes searched on the row's drafter, measured along the same answers on the column's. */
export interface TransferMatrix {
  readonly drafters: readonly string[];
  /** Prompts that were audited on all of them; both sides are pooled over these. */
  readonly prompts: readonly string[];
  readonly attacked: readonly (readonly number[])[];
  readonly clean: readonly number[];
}

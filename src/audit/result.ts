/**
 * The result of an audit as data, and its schemas. It depends only on configuration, seed and weights, so a resumed
 * run writes the same bytes. Measured times are in phase-clock.ts.
 */
import * as z from '../core/schema.js';
import type { Interval } from '../measure/statistics.js';
import { type KeptClass, keptClasses } from '../measure/kept-class.js';
import type { ModelIdentity } from '../runs/identity.js';

/** The rows of a result. `attack` (or `given`) is compared with the others. */
export const arms = [
  'clean',
  'clean-again', // A/A: the clean prompt measured a second time
  'random', // random allowed tokens of the same length, several draws
  'fluent', // ordinary text of the same length
  'undirected', // the attack without its gradients, with equal effort
  'preservation-only', // the search with only the preservation loss
  'unprojected', // the search without projection
  'given', // suffixes from the user
  'attack',
] as const;
export type ArmName = (typeof arms)[number];

/** Arms whose suffix was searched under the --keep rule; the others are measured whatever the suffix does to the answer. */
const searchedArms = ['attack', 'unprojected', 'preservation-only', 'undirected'] as const;
export type SearchedArm = (typeof searchedArms)[number];

export const isSearched = (arm: ArmName): arm is SearchedArm =>
  (searchedArms as readonly ArmName[]).includes(arm);

/** The controls that the attack must beat, each in a paired test over prompts. */
export const controls = ['clean', 'random', 'fluent', 'undirected'] as const;
export type ControlName = (typeof controls)[number];

export const resultSchema = 'mistletoe.audit/2';

export interface AuditResult {
  readonly schema: typeof resultSchema;
  readonly setup: AuditSetup;
  readonly drafters: readonly DrafterResult[];
  readonly transfer: TransferMatrix | null;
  readonly universal: readonly UniversalResult[];
  /** Absent if all units were computed. */
  readonly failedUnits?: readonly FailedUnit[];
}

/** A unit that ended its worker too often, or that a worker could not compute. */
export interface FailedUnit {
  readonly unit: string;
  readonly error: string;
}

export interface AuditSetup {
  readonly version: string;
  readonly node: string;
  readonly target: ModelIdentity;
  readonly drafters: readonly DrafterIdentity[];
  readonly preset: string;
  readonly seed: number;
  readonly options: Readonly<Record<string, string | number | boolean | null>>;
  /** Absolute paths outside the current folder are shortened. */
  readonly command: string;
  readonly promptCount: number;
}

interface DrafterIdentity extends ModelIdentity {
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
  /** Null if the prompt counts. */
  readonly skipped: string | null;
  /** Searched and random arms occur once per seed or draw. */
  readonly arms: readonly ArmResult[];
  readonly traces: readonly SearchTrace[];
}

const number = z.number();
const ids = z.array(z.number().int()).readonly();
const numbers = z.array(number).readonly();
const strings = z.array(z.string()).readonly();

const acceptanceSchema = z.object({
  /** Target passes without the prompt's. */
  steps: number,
  proposed: number,
  accepted: number,
  emitted: number,
  meanAcceptedLength: number,
  acceptanceByDepth: numbers,
  histogram: numbers,
});
export type AcceptanceSummary = Readonly<z.infer<typeof acceptanceSchema>>;

/** Drafts along the clean answer. */
const heldSchema = acceptanceSchema.extend({
  /** a = accepted draft token, b = the target's own token. */
  origins: z.string(),
});
export type HeldRecord = Readonly<z.infer<typeof heldSchema>>;

/** Target passes of two answers over equally many tokens. */
const equalLengthsSchema = z.object({ tokens: number, passes: number, cleanPasses: number });
export type EqualLengths = Readonly<z.infer<typeof equalLengthsSchema>>;

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
  /** a = accepted draft token, b = the target's own token. */
  origins: z.string(),
  finishReason: z.string(),
});
export type AnswerRecord = Readonly<z.infer<typeof answerSchema>>;

const preservationSchema = z.object({
  /** Mean KL(target without suffix || target with it) over the window, in nats. */
  divergence: number,
  kept: z.enum(keptClasses),
  /** Tokens before the first difference from the clean answer. */
  firstDifference: number,
  /** 1 - edit distance / longer length, on tokens. */
  editSimilarity: number,
  /** Under the clean prompt. */
  answerPerplexity: number,
  /** Share of repeated 4-grams. */
  repetition: number,
  /** As a filter would see it; null without a suffix. */
  suffixPerplexity: number.nullable(),
  /** Within the divergence bound, and the answer is kept as --keep requires. */
  withinBound: z.boolean(),
});
export type PreservationMeasures = Readonly<z.infer<typeof preservationSchema>>;

export const armSchema = z.object({
  arm: z.enum(arms),
  /** From 1. */
  repeat: number,
  suffix: z.string(),
  suffixIds: ids,
  /** Why a searched arm has no suffix; it then counts as the clean prompt. */
  withoutSuffix: z.string().nullable(),
  /** The headline metric. */
  sameAnswer: heldSchema,
  answer: answerSchema,
  freeRunning: acceptanceSchema,
  /** Over equally many tokens. */
  compared: equalLengthsSchema,
  preservation: preservationSchema,
  /** The slowest finalist whose answer differs. Never the attack. */
  slowOther: otherAnswerSchema.nullable(),
  /** A role marker of the chat template that a given suffix spells. */
  roleMarker: z.string().optional(),
});
export interface ArmResult extends Readonly<z.infer<typeof armSchema>> {
  /** A searched suffix whose measured answer was not kept; the arm then counts as the clean prompt. */
  readonly notKept?: OtherAnswer | undefined;
  /** Of a given suffix; absent if nothing says which prompts chose it. */
  readonly origin?: SuffixOrigin | undefined;
}

export interface SuffixOrigin {
  /** Fingerprints of the prompts that chose the suffix. */
  readonly chosenOn: readonly string[];
  /** Whether this prompt is one of them. */
  readonly replayed: boolean;
}

export const tracePointSchema = z.object({
  step: number,
  /** Of the search's current suffix; larger is worse for the service. */
  degradation: number,
  divergence: number,
  /** Lowest accepted length along the clean answer within the bounds so far; null if none. */
  acceptedLength: number.nullable(),
  /** Cosine between search direction and preservation gradient. */
  cosineBefore: number,
  cosineAfter: number,
  candidates: number,
  vetoed: number,
});
export type TracePoint = Readonly<z.infer<typeof tracePointSchema>>;

export const traceSchema = z.object({
  arm: z.enum(arms),
  repeat: number,
  objective: z.string(),
  projection: z.string(),
  scoredCandidates: number,
  decodedSuffixes: number,
  steps: z.array(tracePointSchema).readonly(),
});
export type SearchTrace = Readonly<z.infer<typeof traceSchema>>;

const universalSplitSchema = z.object({
  /** Prompts in which the suffix survives. */
  n: number,
  lostInText: number,
  cleanAcceptedLength: number,
  attackedAcceptedLength: number,
  divergence: number,
  kept: z.record(z.enum(keptClasses), number),
  pValue: number,
});
export type UniversalSplit = Readonly<z.infer<typeof universalSplitSchema>>;

const universalSuffixSchema = z.object({
  suffix: z.string(),
  scoredCandidates: number,
  trained: universalSplitSchema,
  heldOut: universalSplitSchema.nullable(),
});
export type UniversalSuffix = Readonly<z.infer<typeof universalSuffixSchema>>;

export const universalResultSchema = universalSuffixSchema.extend({
  drafter: z.string(),
  /** Of an undirected search of equal effort; null if it found no suffix inside the bounds. */
  undirected: universalSuffixSchema.nullable(),
});
export type UniversalResult = Readonly<z.infer<typeof universalResultSchema>>;

export interface DrafterSummary {
  readonly arms: readonly ArmSummary[];
  /** 1 - attacked / clean accepted length along the same answer, pooled. */
  readonly drop: Interval;
  /** Against each measured control, over prompts, one-sided; none for a replay, whose prompts chose the suffixes. */
  readonly tests: readonly PairedTest[];
  readonly promptsAudited: number;
  readonly promptsSkipped: number;
  /** Prompts without a suffix within the bounds; they count as no drop. */
  readonly promptsWithoutSuffix: number;
  /** Absent if 0. */
  readonly armsNotKept?: number | undefined;
  /** Prompts that chose the given suffixes they are measured with; absent if 0. */
  readonly promptsReplayed?: number | undefined;
}

export interface ArmSummary {
  readonly arm: ArmName;
  /** Pooled over steps, interval over prompts. */
  readonly sameAnswer: Interval;
  readonly meanOfPromptMeans: number;
  readonly acceptanceByDepth: readonly number[];
  /** Target passes for the clean answer, per prompt. */
  readonly passes: number;
  /** Mean accepted length of the free-running answers, pooled. */
  readonly freeRunning: number;
  /** Free-running passes over those of the clean prompt; 1.2 is 20 % more. */
  readonly passRatio: number;
  /** Mean tokens of the free-running answers. */
  readonly answerLength: number;
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

/** [row][column]: suffixes of the row's drafter, measured on the column's along the same answers; null if that failed. */
export interface TransferMatrix {
  readonly drafters: readonly string[];
  /** Audited on all drafters. */
  readonly prompts: readonly string[];
  readonly attacked: readonly (readonly (number | null)[])[];
  readonly clean: readonly number[];
}

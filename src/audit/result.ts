/**
 * What an audit finds, as plain data: the authority behind every report. Everything here is a function of the
 * configuration, the seed and the weights, so that a resumed run writes the same bytes; measured times, which are
 * not, live apart in audit-timings.ts.
 */
import type { KeptClass } from '../measure/kept-class.js';
import type { ModelIdentity } from '../runs/identity.js';
import type { ArmName, ControlName } from './arms/arms.js';

/** The way of a search, step by step. */
export interface SearchTrace {
  readonly arm: ArmName;
  readonly repeat: number;
  readonly objective: string;
  readonly projection: string;
  /** The effort: candidates scored, and suffixes decoded at the end. */
  readonly scoredCandidates: number;
  readonly decodedSuffixes: number;
  readonly steps: readonly TracePoint[];
}

export interface TracePoint {
  readonly step: number;
  /** The objective and the divergence of the suffix that the search stands at; larger is worse for the service. */
  readonly degradation: number;
  readonly divergence: number;
  /** The lowest accepted length along the clean answer so far, inside the bounds; null where there is none. */
  readonly acceptedLength: number | null;
  /** Cosine between the search direction and the preservation gradient, before and after projection. */
  readonly cosineBefore: number;
  readonly cosineAfter: number;
  readonly candidates: number;
  readonly vetoed: number;
}

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
  /** The effective options, as they would be given again. */
  readonly options: Readonly<Record<string, string | number | boolean | null>>;
  /** What was typed, to run the same audit; of absolute paths outside of the current folder only the last part. */
  readonly command: string;
  readonly promptCount: number;
}

export interface DrafterIdentity extends ModelIdentity {
  /** How the audit calls it: the folder's name. */
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
  /** Why this prompt was passed over, in one sentence; null where it counts. */
  readonly skipped: string | null;
  /** Searched and drawn arms may stand here several times, once for each seed or draw. */
  readonly arms: readonly ArmResult[];
  readonly traces: readonly SearchTrace[];
}

export interface ArmResult {
  readonly arm: ArmName;
  /** 1 for the first seed or draw of the arm. */
  readonly repeat: number;
  readonly suffix: string;
  readonly suffixIds: readonly number[];
  /** Why a searched arm has no suffix (all vetoed, or no answer kept): it then counts as the clean prompt. */
  readonly withoutSuffix: string | null;
  /** The headline: drafts along the clean answer, to which the target is held token by token. */
  readonly sameAnswer: HeldRecord;
  /** The answer that the target gives by itself under the suffix. */
  readonly answer: AnswerRecord;
  readonly freeRunning: AcceptanceSummary;
  /** This arm's free-running answer and the clean one over equally many tokens. */
  readonly compared: EqualLengths;
  readonly preservation: PreservationMeasures;
  /** Of the suffixes that the search handed on: the slowest whose answer is another one. Never the attack. */
  readonly slowOther: OtherAnswer | null;
  /** The searched suffix whose answer was not kept when it was measured; the arm then counts as the clean prompt. */
  readonly notKept?: OtherAnswer | undefined;
}

export interface HeldRecord extends AcceptanceSummary {
  /** Which tokens of the clean answer were accepted drafts (a) and which the target's own (b). */
  readonly origins: string;
}

export interface EqualLengths {
  readonly tokens: number;
  readonly passes: number;
  readonly cleanPasses: number;
}

export interface OtherAnswer {
  readonly suffix: string;
  readonly answer: string;
  readonly similarity: number;
  readonly compared: EqualLengths;
}

/** The answer token by token: what a reader needs to see where drafts were accepted. */
export interface AnswerRecord {
  readonly text: string;
  readonly tokenIds: readonly number[];
  readonly pieces: readonly string[]; // [token] concatenates to `text`
  /** a = accepted draft token, b = the target's own token, one letter each. */
  readonly origins: string;
  readonly finishReason: string;
}

export interface AcceptanceSummary {
  /** Verification passes of the target; the pass over the prompt is not among them. */
  readonly steps: number;
  readonly proposed: number;
  readonly accepted: number;
  readonly emitted: number;
  readonly meanAcceptedLength: number;
  readonly acceptanceByDepth: readonly number[];
  readonly histogram: readonly number[];
}

export interface PreservationMeasures {
  /** Mean KL(target without suffix || target with it) over the window, in nats. */
  readonly divergence: number;
  /** What became of the free-running answer. */
  readonly kept: KeptClass;
  /** Tokens of the free-running answer before the first one that differs from the clean answer. */
  readonly firstDifference: number;
  /** 1 - edit distance / longer length, on tokens. */
  readonly editSimilarity: number;
  /** Perplexity of this arm's answer under the clean prompt. */
  readonly answerPerplexity: number;
  /** Share of repeated 4-grams. */
  readonly repetition: number;
  /** Perplexity of the suffix itself, as a filter would see it; null without a suffix. */
  readonly suffixPerplexity: number | null;
  /** Within the divergence bound, and the answer kept as the audit asks for. */
  readonly withinBound: boolean;
}

export interface Interval {
  readonly estimate: number;
  readonly low: number;
  readonly high: number;
  readonly n: number;
}

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
  /** Searched arms whose answer was not kept when it was measured; absent where there are none. */
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

export interface UniversalResult {
  readonly drafter: string;
  readonly suffix: string;
  readonly trained: UniversalSplit;
  readonly heldOut: UniversalSplit | null;
}

export interface UniversalSplit {
  /** Prompts in which the suffix survives as text; the others are counted apart. */
  readonly n: number;
  readonly lostInText: number;
  readonly cleanAcceptedLength: number;
  readonly attackedAcceptedLength: number;
  readonly divergence: number;
  readonly kept: Readonly<Record<KeptClass, number>>;
  readonly pValue: number;
}

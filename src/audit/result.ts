/**
 * What an audit finds, as plain data: the authority behind every report. Everything here is a function of the
 * configuration, the seed and the weights, so that a resumed run writes the same bytes; measured times, which are
 * not, live apart in AuditTimings.
 */
export const resultSchema = 'mistletoe.audit/1';

/** Every result has all of these rows; `attack` counts only against the others. */
export const arms = [
  'clean',
  'clean-again', // A/A: the clean prompt decoded a second time
  'random', // random allowed tokens of the same length
  'fluent', // ordinary text of the same length
  'preservation-only', // the search with nothing but the preservation loss
  'unprojected', // the search without projection
  'attack',
] as const;
export type ArmName = (typeof arms)[number];

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
  /** A command that runs the same audit. */
  readonly command: string;
  readonly promptCount: number;
}

export interface ModelIdentity {
  readonly name: string;
  readonly parameterCount: number;
  readonly sha256: string;
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
  /** Why there is no attack on this prompt, in one sentence; null where there is one. */
  readonly skipped: string | null;
  readonly arms: readonly ArmResult[];
  readonly traces: readonly SearchTrace[];
  /** Mean accepted length under attack for each further seed of --repeats; the attack arm is the first seed's. */
  readonly repeats: readonly number[];
}

export interface ArmResult {
  readonly arm: ArmName;
  readonly suffix: string;
  readonly suffixIds: readonly number[];
  readonly answer: AnswerRecord;
  readonly acceptance: AcceptanceSummary;
  readonly preservation: PreservationMeasures;
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
  /** Tokens of the free-running answer before the first one that differs from the clean answer. */
  readonly firstDifference: number;
  /** 1 - edit distance / longer length, on tokens. */
  readonly editSimilarity: number;
  /** Perplexity of this arm's answer under the clean prompt. */
  readonly answerPerplexity: number;
  /** Share of repeated 4-grams. */
  readonly repetition: number;
  /** Whether the task's final answer agrees with the clean one's; null where the prompt set has no such answer. */
  readonly taskAgrees: boolean | null;
  /** Perplexity of the suffix itself, as a filter would see it; null without a suffix. */
  readonly suffixPerplexity: number | null;
  readonly withinBound: boolean;
}

export interface SearchTrace {
  readonly arm: ArmName;
  readonly objective: string;
  readonly projection: string;
  readonly steps: readonly TracePoint[];
}

export interface TracePoint {
  readonly step: number;
  /** The surrogate objective of the best suffix so far that lies within the bound; larger is worse for the service. */
  readonly degradation: number;
  readonly divergence: number;
  /** The lowest accepted length measured so far; null where nothing has been. */
  readonly acceptedLength: number | null;
  /** Cosine between the search direction and the preservation gradient, before and after projection. */
  readonly cosineBefore: number;
  readonly cosineAfter: number;
  readonly candidates: number;
  readonly vetoed: number;
}

export interface Interval {
  readonly estimate: number;
  readonly low: number;
  readonly high: number;
  readonly n: number;
}

export interface DrafterSummary {
  readonly arms: readonly ArmSummary[];
  /** 1 - attacked / clean mean accepted length, pooled. */
  readonly drop: Interval;
  readonly againstClean: PairedTest;
  readonly againstRandom: PairedTest;
  readonly promptsAudited: number;
  readonly promptsSkipped: number;
}

export interface ArmSummary {
  readonly arm: ArmName;
  /** Pooled over steps, bootstrap over prompts. */
  readonly meanAcceptedLength: Interval;
  /** Unweighted mean of the prompts' own means. */
  readonly meanOfPromptMeans: number;
  readonly acceptanceByDepth: readonly number[];
  readonly divergence: number;
  readonly editSimilarity: number;
  readonly firstDifference: number;
  readonly answerPerplexity: number;
  readonly repetition: number;
  readonly taskAgreement: number | null;
  readonly suffixPerplexity: number | null;
  readonly withinBound: number; // share of prompts
}

/** Paired Wilcoxon signed-rank on the prompts' mean accepted lengths, one-sided: attack is shorter. */
export interface PairedTest {
  readonly n: number;
  readonly pValue: number;
  readonly method: string;
}

/** Suffixes found on one drafter, measured on the others. */
export interface TransferMatrix {
  readonly drafters: readonly string[];
  /** [found on][measured on] mean accepted length with the suffix. */
  readonly attacked: readonly (readonly number[])[];
  /** [measured on] mean accepted length of the same prompts without one. */
  readonly clean: readonly number[];
}

export interface UniversalResult {
  readonly drafter: string;
  readonly suffix: string;
  readonly trained: UniversalSplit;
  readonly heldOut: UniversalSplit | null;
}

export interface UniversalSplit {
  readonly n: number;
  readonly cleanAcceptedLength: number;
  readonly attackedAcceptedLength: number;
  readonly divergence: number;
  readonly pValue: number;
}

/** Measured times, one entry for each arm of each prompt; never part of AuditResult. */
export interface ArmTiming {
  readonly drafter: string;
  readonly promptId: string;
  readonly arm: ArmName;
  readonly prefillMs: number;
  readonly decodeMs: number;
  readonly draftMs: number;
  readonly verifyMs: number;
  readonly tokensPerSecond: number;
  /** Plain decoding of the same prompt to the same length, in the same process. */
  readonly plainTokensPerSecond: number;
  /** tokensPerSecond / plainTokensPerSecond */
  readonly speedup: number;
}

export interface AuditTimings {
  readonly machine: string;
  readonly arms: readonly ArmTiming[];
  readonly searchMs: number;
}

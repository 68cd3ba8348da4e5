/**
 * What is known about one answered request, whichever engine answered it. The judge, the records, the metrics and the page
 * read nothing else. The accepted length of a step includes the bonus token: 1 + accepted / steps.
 */
import * as z from '../core/schema.js';

export { acceptedLengthOf as meanAcceptedLength } from '../measure/statistics.js';

/** A name from engines/engine-list.ts, or `unknown`. */
export type EngineName = string;

const actionNames = ['shorter-drafts', 'plain-upstream', 'rate-limit'] as const;
export type ActionName = (typeof actionNames)[number];

const count = z.number().int().nonnegative();
const counts = z.array(count).max(1_000_000).readonly().nullable();

const speculationSchema = z.object({
  /**
   * `reported`: the engine counted steps and accepted tokens. `derived`: it counted tokens, and it is known to send one
   * chunk per step, or its totals give the steps. `estimated`: tokens per chunk, where a chunk may or may not be a step.
   */
  evidence: z.enum(['reported', 'derived', 'estimated']),
  /** Verification passes of the target, including those without a draft. */
  steps: z.number().nonnegative(),
  /** Accepted draft tokens, without the bonus tokens. */
  accepted: z.number().nonnegative(),
  /** Drafted tokens; 0 where the engine drafted nothing for this request. */
  proposed: z.number().nonnegative().nullable(),
  /** [a] is the number of steps that accepted a draft tokens. */
  histogram: counts,
  perStepAccepted: counts,
  perStepProposed: counts,
  /** Max draft tokens of a step along one path. */
  draftLength: count.nullable(),
  /** Trees propose more tokens than a path can accept, so accepted / proposed is not comparable with chains. */
  isTree: z.boolean(),
  /** Mean time of a step in milliseconds, where the engine reports its decoding time and all steps are of one kind. */
  stepMs: z.number().positive().exactOptional(),
});
export type Speculation = Readonly<z.infer<typeof speculationSchema>>;
export type Evidence = Speculation['evidence'];

/** Fields of earlier versions (promptPrint, promptTail) are dropped. */
export const observationSchema = z.object({
  /** The guard's own id of the request. */
  id: z.string(),
  /** The client's X-Request-Id and traceparent, and the engine's id of the response. */
  clientRequestId: z.string().optional(),
  traceparent: z.string().optional(),
  engineRequestId: z.string().optional(),
  /** As the engine lists it; models it does not list share one name. */
  model: z.string(),
  /** The normalized path of the request, as /v1/chat/completions. */
  route: z.string(),
  /** When the response ended, in milliseconds since 1970. */
  endedMs: z.number(),
  engine: z.string(),
  /** The name that the operator's rule gives to the sender; never a key. */
  tenant: z.string(),
  status: count,
  ending: z.enum(['complete', 'client-left', 'upstream-failed', 'refused']),
  /** Which upstream answered: the one that drafts, or the one that does not. */
  upstream: z.enum(['speculative', 'plain']),
  /** The measure in force for this request; absent where there was none. */
  measure: z.enum(actionNames).optional(),
  /** The tenant is under a measure, and this request was drafted as usual to test whether it can be lifted. */
  isProbe: z.boolean().optional(),
  isStream: z.boolean(),
  promptTokens: z.number().nullable(),
  completionTokens: z.number().nullable(),
  firstByteMs: z.number().nullable(),
  totalMs: z.number(),
  /** Null where the engine reported nothing and nothing could be estimated. Steps of several choices are pooled. */
  speculation: speculationSchema.readonly().nullable(),
  /** [choice] Where a response has several choices and the engine reports each; null for one without drafts. */
  choiceSpeculation: z.array(speculationSchema.readonly().nullable()).max(1000).readonly().exactOptional(),
});

export type Observation = Readonly<z.infer<typeof observationSchema>>;

/** Requests are compared with others of the same stream. */
export type Stream = Pick<Observation, 'model' | 'route'>;

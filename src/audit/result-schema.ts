/** The lines of a run as they are read back: a file on disk is somebody's, so it is parsed before it is trusted. */
import { z } from 'zod';
import { keptClasses } from '../measure/kept-class.js';
import { arms } from './arms/arms.js';
import type { ArmTiming } from './arms/phase-clock.js';
import type { ArmResult, SearchTrace, UniversalResult } from './result.js';

const number = z.number();
const ids = z.array(z.number().int()).readonly();
const numbers = z.array(number).readonly();

const acceptance = {
  steps: number,
  proposed: number,
  accepted: number,
  emitted: number,
  meanAcceptedLength: number,
  acceptanceByDepth: numbers,
  histogram: numbers,
};

const equalLengths = z.object({ tokens: number, passes: number, cleanPasses: number });

const armResult = z.object({
  arm: z.enum(arms),
  repeat: number,
  suffix: z.string(),
  suffixIds: ids,
  withoutSuffix: z.string().nullable(),
  sameAnswer: z.object({ ...acceptance, origins: z.string() }),
  answer: z.object({
    text: z.string(),
    tokenIds: ids,
    pieces: z.array(z.string()).readonly(),
    origins: z.string(),
    finishReason: z.string(),
  }),
  freeRunning: z.object(acceptance),
  compared: equalLengths,
  preservation: z.object({
    divergence: number,
    kept: z.enum(keptClasses),
    firstDifference: number,
    editSimilarity: number,
    answerPerplexity: number,
    repetition: number,
    suffixPerplexity: number.nullable(),
    withinBound: z.boolean(),
  }),
  slowOther: z
    .object({ suffix: z.string(), answer: z.string(), similarity: number, compared: equalLengths })
    .nullable(),
}) satisfies z.ZodType<ArmResult>;

const trace = z.object({
  arm: z.enum(arms),
  repeat: number,
  objective: z.string(),
  projection: z.string(),
  scoredCandidates: number,
  decodedSuffixes: number,
  steps: z
    .array(
      z.object({
        step: number,
        degradation: number,
        divergence: number,
        acceptedLength: number.nullable(),
        cosineBefore: number,
        cosineAfter: number,
        candidates: number,
        vetoed: number,
      }),
    )
    .readonly(),
}) satisfies z.ZodType<SearchTrace>;

/** A unit: an arm that was measured, or the sentence that says why not. */
export const unitSchema = z.union([
  z.object({ result: armResult, trace: trace.nullable() }),
  z.object({ skipped: z.string() }),
]);
export type UnitData = z.infer<typeof unitSchema>;

export const countsSchema = z.object({ accepted: number, steps: number });

const universalSplit = z.object({
  n: number,
  lostInText: number,
  cleanAcceptedLength: number,
  attackedAcceptedLength: number,
  divergence: number,
  kept: z.record(z.enum(keptClasses), number),
  pValue: number,
});

export const universalSchema = z
  .object({
    drafter: z.string(),
    suffix: z.string(),
    trained: universalSplit,
    heldOut: universalSplit.nullable(),
  })
  .nullable() satisfies z.ZodType<UniversalResult | null>;

export const timingSchema = z.object({
  drafter: z.string(),
  promptId: z.string(),
  arm: z.enum(arms),
  repeat: number,
  prefillMs: number,
  decodeMs: number,
  draftMs: number,
  verifyMs: number,
  tokensPerSecond: number,
  plainTokensPerSecond: number.nullable(),
  speedup: number.nullable(),
  phases: z
    .object({
      gradientMs: number,
      scoringMs: number,
      exactLengthsMs: number,
      decodingMs: number,
      totalMs: number,
    })
    .exactOptional(),
}) satisfies z.ZodType<ArmTiming>;

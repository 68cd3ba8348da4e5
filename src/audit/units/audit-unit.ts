/**
 * The units of an audit as data: the controls of one prompt on one drafter, one search, one suffix for many prompts, or
 * suffixes of one drafter measured on another. Through a queue this is untrusted input: it names models by their hashes
 * and no paths at all.
 */
import * as z from '../../core/schema.js';
import { fileLimits } from '../../core/limits.js';
import { parseDraftPolicy } from '../../draft/tree/policy.js';
import type { Unit, WorkerName } from '../../runs/unit.js';
import { deviceOf } from '../../runs/run-device.js';
import type { TracePoint } from '../result.js';
import { armSchema, arms, tracePointSchema, traceSchema, universalResultSchema } from '../result.js';
import { type AuditRequest, requestSchema } from '../audit-request.js';

/** Without a file: a worker on another machine does not have it. */
export const policySchema = z.string().refine((text) => {
  try {
    const policy = parseDraftPolicy(text);
    return policy.kind !== 'auto' && (policy.kind !== 'tree' || policy.source.kind === 'named');
  } catch {
    return false;
  }
}, 'a policy without a file was expected');

const requestShape = requestSchema.shape;
const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const count = z.int().nonnegative();
const keySchema = z.object({
  arm: z.enum(arms),
  repeat: z.int().positive(),
  effort: z.object({ scoredCandidates: count, decodedSuffixes: count }).exactOptional(),
});

/** The part of a request that decides the output of a unit. */
const partialRequest = requestSchema
  .pick({ version: true, settings: true, seed: true, taps: true, prompts: true, suffixes: true })
  .extend({
    device: requestShape.device.unwrap(),
    target: requestShape.target.extend({ sha256 }),
    drafter: requestShape.drafters.element.omit({ folder: true }).extend({ sha256 }),
    chatTemplate: requestShape.chatTemplate,
    date: requestShape.date,
  });

const auditUnitSchema = z.object({
  command: z.literal('audit'),
  request: partialRequest,
  work: z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('arms'), arms: z.array(keySchema).min(1) }),
    z.object({ kind: z.literal('universal') }),
    z.object({
      kind: z.literal('transfer'),
      /** The drafter on which the suffixes were found. */
      found: z.string(),
      /** [prompt] */
      suffixes: z.array(z.array(z.int().nonnegative())),
    }),
  ]),
});
export type AuditUnitInput = z.infer<typeof auditUnitSchema>;
export type AuditUnit = Unit<AuditUnitInput>;

/** What a stranger sent: also bounded, and without files. */
export const strangeUnitSchema = auditUnitSchema.refine(
  ({ request: { drafter, prompts, chatTemplate }, work }) =>
    policySchema.safeParse(drafter.policy).success &&
    (work.kind !== 'transfer' || work.suffixes.length === prompts.length) &&
    (chatTemplate?.source.length ?? 0) <= fileLimits.template,
  'a policy without a file, a suffix for each prompt, and a chat template of usual size were expected',
);

// The parts of units, as data.
/** A measured arm, or why it was skipped. */
export const unitSchema = z.union([
  z.object({ result: armSchema, trace: traceSchema.nullable() }),
  z.object({
    skipped: z.string(),
    /** Its worker ended again and again, or reported an error. */
    failed: z.literal(true).exactOptional(),
  }),
]);
export type UnitData = z.infer<typeof unitSchema>;

/** What is recorded of a failed unit that is not an arm. */
const failureSchema = z.strictObject({ failed: z.string() });

const countsSchema = z.object({ accepted: z.number(), steps: z.number() });
export const transferSchema = z.union([failureSchema, countsSchema]);

/** Null if no suffix was inside the bounds. */
export const universalSchema = z.union([failureSchema, universalResultSchema]).nullable();

/** What all units of a run have in common. */
export function shareRequest(
  request: AuditRequest,
): Omit<AuditUnitInput['request'], 'drafter' | 'prompts' | 'suffixes'> {
  const { version, settings, seed, target, taps, chatTemplate, date } = request;
  const device = deviceOf(request);
  return { version, settings, seed, device, target, ...(taps && { taps }), chatTemplate, date };
}

// Progress of a unit on its way to the display. Through a queue it is untrusted, like everything else.
const nameSchema = z.object({
  drafter: z.string(),
  prompt: z.string(),
  /** An arm with its number (`attack`, `attack#2`), `universal` or `transfer`. */
  arm: z.string(),
});
/** An arm of a prompt on a drafter, the universal search, or a transfer measurement. */
export type UnitName = Readonly<z.infer<typeof nameSchema>>;

export const progressSchema = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('start'), name: nameSchema }),
  z.object({ kind: z.literal('step'), name: nameSchema, point: tracePointSchema, steps: z.number() }),
  /** The accepted length is null if the unit was skipped. */
  z.object({ kind: z.literal('end'), name: nameSchema, acceptedLength: z.number().nullable() }),
]);
export type UnitProgress = Readonly<z.infer<typeof progressSchema>>;

export interface AuditPlanned {
  readonly target: string;
  readonly drafters: readonly string[];
  readonly preset: string;
  readonly folder: string;
  readonly units: number;
  /** Null if there is nothing to estimate from. */
  readonly expectedMs: number | null;
}

export interface AuditEvents {
  /** Once, before anything expensive. */
  onPlan?(plan: AuditPlanned): void;
  /** In order, including those that an earlier start finished. */
  onStart?(units: readonly UnitName[]): void;
  /** `done` units are finished. With several workers, units overlap; without, there is no worker. */
  onUnitStart?(unit: UnitName, done: number, total: number, worker?: WorkerName): void;
  onStep?(unit: UnitName, point: TracePoint, steps: number, worker?: WorkerName): void;
  onUnitEnd?(unit: UnitName, acceptedLength: number | undefined, worker?: WorkerName): void;
  onNotice?(message: string): void;
}

/**
 * The units of an audit as data: the controls of one prompt on one drafter, one search, one suffix for many prompts, or
 * suffixes of one drafter measured on another. Through a queue this is untrusted input: it names models by their hashes
 * and no paths at all.
 */
import { z } from 'zod';
import { fileLimits, maxThreads } from '../../core/limits.js';
import { parseDraftPolicy } from '../../draft/tree/policy.js';
import type { Unit, WorkerName } from '../../runs/unit.js';
import { arms, type TracePoint } from '../result.js';
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
const keySchema = z.object({ arm: z.enum(arms), repeat: z.int().positive() });

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
  ({ request: { drafter, chatTemplate } }) =>
    policySchema.safeParse(drafter.policy).success &&
    (chatTemplate?.source.length ?? 0) <= fileLimits.template,
  'a policy without a file and a chat template of usual size were expected',
);

interface ModelFolders {
  readonly target: string;
  readonly drafter: string;
}

/** The request of a unit as the rest of the audit knows it. */
export function toRequest({ request }: AuditUnitInput, folders: ModelFolders, threads: number): AuditRequest {
  const { drafter, ...rest } = request;
  return {
    ...rest,
    schema: requestShape.schema.value,
    node: process.version,
    preset: '',
    threads: Math.min(threads, maxThreads),
    targetFolder: folders.target,
    drafters: [{ ...drafter, folder: folders.drafter }],
    transfer: false,
    universal: false,
    command: '',
  };
}

// Progress events of an audit.
/** An arm of a prompt on a drafter, the universal search, or a transfer measurement. */
export interface UnitName {
  readonly drafter: string;
  readonly prompt: string;
  /** An arm with its number (`attack`, `attack#2`), `universal` or `transfer`. */
  readonly arm: string;
}

export interface UnitEvents {
  onStep?(unit: UnitName, point: TracePoint, steps: number): void;
  onNotice?(message: string): void;
}

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

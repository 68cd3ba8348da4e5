/**
 * The units of an audit as data: the controls of one prompt on one drafter, one search, one suffix for many prompts, or
 * suffixes of one drafter measured on another. Through a queue this is untrusted input: it names models by their hashes
 * and no paths at all.
 */
import { z } from 'zod';
import { fileLimits, maxThreads } from '../../core/limits.js';
import { parseDraftPolicy } from '../../draft/tree/policy.js';
import type { Unit } from '../../runs/unit.js';
import { arms } from '../result.js';
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
const partialRequest = z.object({
  version: requestShape.version,
  settings: requestShape.settings,
  seed: requestShape.seed,
  device: requestShape.device.unwrap(),
  target: requestShape.target.extend({ sha256 }),
  drafter: requestShape.drafters.element.omit({ folder: true }).extend({ sha256, policy: z.string() }),
  taps: requestShape.taps,
  prompts: requestShape.prompts,
  suffixes: requestShape.suffixes,
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

/** Where the models of a unit are on this machine. */
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

/** What an audit is asked to do, as it is kept in the run's config.json: a resumed run reads this and nothing else. */
import { z } from 'zod';
import { MistletoeError } from '../core/errors.js';
import { tapConventions } from '../draft/draft-system.js';
import { identitySchema } from '../runs/identity.js';
import { deviceSchema } from '../runs/run-device.js';
import { settingsSchema } from './settings.js';

export const promptSchema = z.object({
  id: z.string(),
  category: z.string().optional(),
  text: z.string(),
  turns: z.array(z.string()),
  reference: z.string().optional(),
});

export const requestSchema = z.object({
  schema: z.literal('mistletoe.audit-run/2'),
  version: z.string(),
  node: z.string(),
  preset: z.string(),
  settings: settingsSchema,
  seed: z.number(),
  threads: z.number(),
  /** What computes, and in which type; absent in runs from when there was the CPU alone. */
  device: deviceSchema.optional(),
  targetFolder: z.string(),
  target: identitySchema,
  drafters: z
    .array(
      identitySchema.extend({ id: z.string(), system: z.string(), policy: z.string(), folder: z.string() }),
    )
    .min(1),
  /** What the layer ids of EAGLE-3 heads mean, where that was given. */
  taps: z.enum(tapConventions).exactOptional(),
  prompts: z.array(promptSchema).min(1),
  /** Suffixes to measure without a search; empty where the audit searches. */
  suffixes: z.array(
    z.object({
      text: z.string(),
      place: z.string(),
      promptId: z.string().optional(),
      drafterId: z.string().optional(),
    }),
  ),
  /** In place of the template in the target's folder, word for word: the file it was read from may change. */
  chatTemplate: z
    .object({ source: z.string(), origin: z.string(), addSpecialTokens: z.boolean().optional() })
    .optional(),
  /** What a template that asks for the date is told, on whatever day the run goes on; absent where none asks. */
  date: z.iso.date().optional(),
  transfer: z.boolean(),
  universal: z.boolean(),
  command: z.string(),
});

/** Everything that decides the result. */
export type AuditRequest = Readonly<z.infer<typeof requestSchema>>;

export function parseRequest(config: unknown, place: string): AuditRequest {
  const parsed = requestSchema.safeParse(config);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new MistletoeError(
    'usage',
    `${place} cannot be read: ${issue?.path.join('.') ?? ''} ${issue?.message ?? ''}.`,
    {
      hint: 'It was written by another version, or changed; start the audit anew in another folder.',
    },
  );
}

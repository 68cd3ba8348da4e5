/** The request of an audit, as saved in the run's config.json. A resumed run reads nothing else. */
import { z } from 'zod';
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
  /** Device and dtype; absent in runs of versions that only had the CPU. */
  device: deviceSchema.optional(),
  targetFolder: z.string(),
  target: identitySchema,
  drafters: z
    .array(
      identitySchema.extend({ id: z.string(), system: z.string(), policy: z.string(), folder: z.string() }),
    )
    .min(1),
  /** What the layer ids of EAGLE-3 heads mean, if given. */
  taps: z.enum(tapConventions).exactOptional(),
  prompts: z.array(promptSchema).min(1),
  /** Suffixes to measure without a search; empty if the audit searches. */
  suffixes: z.array(
    z.object({
      text: z.string(),
      place: z.string(),
      promptId: z.string().optional(),
      drafterId: z.string().optional(),
    }),
  ),
  /** Replaces the template in the target's folder. Saved in full, because the file may change. */
  chatTemplate: z
    .object({ source: z.string(), origin: z.string(), addSpecialTokens: z.boolean().optional() })
    .optional(),
  /** The date for templates that use it, the same after a resume; absent if the template does not use one. */
  date: z.iso.date().optional(),
  transfer: z.boolean(),
  universal: z.boolean(),
  command: z.string(),
});

/** Everything that decides the result. */
export type AuditRequest = Readonly<z.infer<typeof requestSchema>>;

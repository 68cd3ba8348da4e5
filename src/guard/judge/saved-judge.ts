/** What a judge keeps over a restart, as JSON. Files may be damaged, so everything is checked before it is used. */
import { z } from 'zod';
import { MistletoeError } from '../../core/errors.js';
import { actionNames } from '../observation.js';

const count = z.number().int().nonnegative();
const amount = z.number().nonnegative();
const share = z.number().min(0).max(1);
const cause = z.enum(['collapsed', 'low', 'drift', 'drafter-down']);
const named = <Value extends z.ZodType>(value: Value) => z.array(z.tuple([z.string(), value]));

const outcome = z.object({
  isCollapsed: z.boolean(),
  isLow: z.boolean(),
  rank: share.nullable(),
  steps: amount,
  accepted: amount,
  breakEven: z.number().min(1),
  isConclusive: z.boolean(),
});

const alert = z.object({
  id: z.string(),
  atMs: z.number(),
  model: z.string(),
  route: z.string(),
  tenant: z.string().nullable(),
  requestId: z.string(),
  cause,
  count,
  requests: count,
  probability: z.number(),
  threshold: z.number(),
  text: z.string(),
});

const state = z.object({
  version: z.literal(3),
  baselines: named(
    z.object({
      samples: z.array(z.object({ tenant: z.string(), steps: amount, accepted: amount })).max(100_000),
      prior: amount,
      learned: count,
      longChunks: count,
    }),
  ).max(1024),
  tenants: z.object({
    tenants: named(
      z.object({
        outcomes: z.array(outcome).max(1000),
        history: z.object({ mean: share, weight: amount }),
        heldFor: count,
        muted: z.partialRecord(cause, z.number()),
      }),
    ),
    recent: z
      .array(z.object({ tenant: z.string(), isCollapsed: z.boolean(), rank: share.nullable() }))
      .max(10_000),
  }),
  everyone: z.object({ latest: named(z.boolean()).max(1024), isDown: z.boolean() }),
  measures: named(
    z.object({
      action: z.enum(actionNames),
      alertId: z.string(),
      wait: z.number().min(1),
      goodProbes: count,
      sinceMs: z.number(),
    }),
  ),
  traffic: z.object({ requests: z.number(), firstMs: z.number().nullable(), lastMs: z.number() }),
  alertCount: count,
  alerts: z.array(alert).max(1024),
});

type DeepReadonly<T> = T extends object ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> } : T;

export type SavedJudge = DeepReadonly<z.infer<typeof state>>;

export function parseSavedJudge(saved: unknown): SavedJudge {
  const parsed = state.safeParse(saved);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const place = issue === undefined || issue.path.length === 0 ? 'the file' : issue.path.join('.');
  throw new MistletoeError(
    'usage',
    `The saved state of the guard is not usable: ${place}: ${issue?.message ?? 'unknown'}.`,
    {
      hint: 'Remove the file; the baseline is then learned again from the traffic.',
    },
  );
}

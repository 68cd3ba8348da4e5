/**
 * What a monitor keeps over a restart, as JSON. The file lies on a disk, so it is checked before it is believed. Files of the first
 * version are read, too: what they do not know begins anew.
 */
import { z } from 'zod';
import { MistletoeError } from '../core/errors.js';
import { nothingLow } from './tenant-test.js';

const count = z.number().int().nonnegative();
const share = z.number().min(0).max(1);
const side = z.enum(['low', 'high']);
const band = z.object({ middle: z.number(), low: z.number(), high: z.number() });

const cell = z.object({
  learnt: count,
  lastMs: z.number(),
  lessons: z
    .array(
      z.object({
        order: count,
        atMs: z.number(),
        steps: count,
        length: z.number().min(1),
        shares: z.array(share).min(1).max(2),
        promptTokens: z.number().nullable(),
      }),
    )
    .max(4096),
  flagged: z.array(z.object({ order: count, atMs: z.number(), side })).max(256),
});

const tenant = z.object({
  evidence: z.number().nonnegative(),
  requests: count,
  steps: z.number().nonnegative(),
  accepted: z.number().nonnegative(),
  since: count,
  heldUntil: count,
  // Not in files of the first version.
  bets: z.array(z.number().nonnegative()).max(16).default([]),
  low: z
    .object({
      requests: count,
      steps: z.number().nonnegative(),
      accepted: z.number().nonnegative(),
      ranks: z.number().nonnegative(),
    })
    .default(nothingLow),
  told: count.default(0),
  silentUntil: count.default(0),
});

const level = z.object({ weight: z.number().nonnegative(), mean: share });

const everyone = z.object({
  evidence: z.number().nonnegative(),
  requests: count,
  steps: z.number().nonnegative(),
  accepted: z.number().nonnegative(),
  latest: z.array(z.tuple([z.string(), z.boolean()])).max(1024),
  recent: z.array(z.boolean()).max(1024),
});

/** Files of the first version have the number alone. */
const sensitivity = z.union([
  z.object({ log: z.number(), flagged: share, isBesieged: z.boolean() }),
  z.number().transform((log) => ({ log, flagged: 0, isBesieged: false })),
]);

/** What is known by name; the tables that take it up are bounded by themselves. */
const named = <Value extends z.ZodType>(value: Value) => z.array(z.tuple([z.string(), value]));

const alarm = z.object({
  id: z.string(),
  model: z.string(),
  route: z.string(),
  atMs: z.number(),
  scope: z.enum(['request', 'tenant', 'everyone']),
  cause: z.enum(['collapse', 'drafter-down', 'repetition', 'hard-text']),
  tenant: z.string().nullable(),
  requestId: z.string().nullable(),
  seen: z.number(),
  steps: z.number(),
  expected: band,
  eValue: z.number(),
  text: z.string(),
});

const state = z.object({
  version: z.union([z.literal(1), z.literal(2)]).transform(() => 2 as const),
  baseline: z.object({ cells: named(cell).max(1024) }),
  tenants: named(tenant),
  levels: z
    .object({ tenants: named(level), latest: named(share).max(1024) })
    .default({ tenants: [], latest: [] }),
  caution: named(z.number().nonnegative().max(100)).default([]),
  tails: named(z.array(z.number().nonnegative()).max(4096)).max(1024).default([]),
  everyone: named(everyone).max(1024).default([]),
  traffic: z.object({ requests: z.number(), firstMs: z.number().nullable(), lastMs: z.number() }),
  sensitivity: named(sensitivity).max(1024),
  alarmCount: count,
  alarms: z.array(alarm).max(1024),
});

type DeepReadonly<T> = T extends object ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> } : T;

export type SavedMonitor = DeepReadonly<z.infer<typeof state>>;

export function parseMonitorState(saved: unknown): SavedMonitor {
  const parsed = state.safeParse(saved);
  if (parsed.success && parsed.data.baseline.cells.every(([key]) => isKey(key))) return parsed.data;
  const [issue] = parsed.error?.issues ?? [];
  const place = issue === undefined ? 'baseline.cells' : issue.path.join('.') || 'the whole';
  throw new MistletoeError(
    'usage',
    `What was saved of the guard's monitor is not usable: ${place} ${issue?.message ?? 'has a name that is no list of names'}.`,
    { hint: 'Remove the file; the baseline is then learnt anew from the traffic.' },
  );
}

function isKey(text: string): boolean {
  try {
    const names: unknown = JSON.parse(text);
    return Array.isArray(names) && names.length >= 1 && names.every((name) => typeof name === 'string');
  } catch {
    return false;
  }
}

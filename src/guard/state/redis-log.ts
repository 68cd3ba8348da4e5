/** The stream of observations in Redis that guards share, and the snapshot of the state after some of its entries. */
import type { Redis } from 'ioredis';
import type { Observation } from '../observation.js';
import { readRecordLine } from '../records/record-segments.js';

/** The braces keep both keys in one slot of a cluster. */
export const keys = { log: '{mistletoe-guard}:log', snapshot: '{mistletoe-guard}:snapshot' } as const;
const maxEntries = 50_000;

/** An observation with its number within this guard. */
export interface Numbered {
  readonly number: number;
  readonly observation: Observation;
  readonly atMs: number;
}

export type Entry = readonly [id: string, fields: readonly string[]];
export type ReadEntry = Omit<Numbered, 'atMs'> & { readonly guard: string };

export function appendEntry(
  redis: Redis,
  guard: string,
  { number, observation }: Numbered,
): Promise<unknown> {
  // Fields that no judgment depends on stay with this guard's records.
  const { speculation: counts } = observation;
  const speculation = counts && { ...counts, perStepAccepted: null, histogram: null };
  const text = JSON.stringify({ ...observation, speculation });
  const fields = ['guard', guard, 'number', number, 'observation', text] as const;
  return redis.xadd(keys.log, 'MAXLEN', '~', maxEntries, '*', ...fields);
}

/** Undefined for an entry that is unusable, as of another version. */
export function readEntry([, fields]: Entry): ReadEntry | undefined {
  const [, guard = '', , number = '', , text = ''] = fields;
  try {
    const line = readRecordLine(JSON.parse(text));
    return 'record' in line ? { guard, number: Number(number), observation: line.record } : undefined;
  } catch {
    return undefined;
  }
}

const storeIfNewer = `
  local known = redis.call('HGET', KEYS[1], 'id')
  if known then
    if ARGV[3] == 'first' then return 0 end
    local kt, kn = string.match(known, '(%d+)-(%d+)')
    local nt, nn = string.match(ARGV[1], '(%d+)-(%d+)')
    if tonumber(nt) < tonumber(kt) then return 0 end
    if tonumber(nt) == tonumber(kt) and tonumber(nn) <= tonumber(kn) then return 0 end
  end
  redis.call('HSET', KEYS[1], 'id', ARGV[1], 'state', ARGV[2])
  return 1
`;

/** Returns whether it was stored: only the first one, or one that is newer than the known one. */
export async function storeSnapshot(
  redis: Redis,
  id: string,
  state: string,
  mode: 'first' | 'newer',
): Promise<boolean> {
  return Number(await redis.eval(storeIfNewer, 1, keys.snapshot, id, state, mode)) === 1;
}

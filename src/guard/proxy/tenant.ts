/**
 * Names the tenant of a request by the operator's rule. Keys are hashed with a secret of this installation and never kept.
 * Names are bounded in length and number; tenants beyond the limit share the name `other`.
 */
import { hash, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { replaceFileSync } from '../../core/durable-files.js';
import { isMissing, readBoundedFileSync } from '../../core/files.js';
import { valuesOf, type RawHeaders } from './message-headers.js';

export interface TenantOptions {
  readonly from: 'all' | 'key' | 'header';
  readonly header?: string | undefined;
  /** Rejects requests with several tenant headers. By default the last one counts: gateways append theirs. */
  readonly rejectSeveral?: boolean;
  readonly secret: string;
  /** Tenants told apart at one time. */
  readonly limit: number;
}

/** Undefined where the request is to be rejected. */
export type TenantNamer = (rawHeaders: RawHeaders, nowMs: number) => string | undefined;

export const everybody = 'all';
export const nobody = 'none';
export const others = 'other';

const maxNameCharacters = 64;
/** A tenant that is idle this long makes room for another. */
const idleMs = 3_600_000;

export function createTenantNamer(options: TenantOptions): TenantNamer {
  const { from, header = '', rejectSeveral = false, secret, limit } = options;
  if (from === 'all') return () => everybody;
  const names = from === 'key' ? ['authorization', 'x-api-key'] : [header.toLowerCase()];
  const toName = from === 'key' ? (value: string): string => nameKey(value, secret) : nameHeader;
  const lastSeen = new Map<string, number>(); // least recent first
  return (rawHeaders, nowMs) => {
    const values = names.map((name) => valuesOf(rawHeaders, name)).find(({ length }) => length > 0) ?? [];
    if (rejectSeveral && (values.length > 1 || (from === 'header' && values[0]?.includes(',') === true)))
      return undefined;
    const name = toName(values.at(-1) ?? '');
    if (name === nobody) return name;
    if (!lastSeen.delete(name) && lastSeen.size >= limit) {
      const [oldest] = lastSeen;
      if (oldest === undefined || nowMs - oldest[1] < idleMs) return others;
      lastSeen.delete(oldest[0]);
    }
    lastSeen.set(name, nowMs);
    return name;
  };
}

function nameKey(value: string, secret: string): string {
  const key = value.replace(/^bearer\s+/i, '').trim();
  return key === '' ? nobody : `key-${hash('sha256', `${secret} ${key}`).slice(0, 12)}`;
}

function nameHeader(value: string): string {
  // Several lines may have been joined on the way.
  const last = value.slice(value.lastIndexOf(',') + 1).trim();
  return last === '' ? nobody : last.slice(0, maxNameCharacters).replace(/[^\w.@:-]/g, '_');
}

/** Kept beside the records, readable by the owner only, so that names survive a restart. */
export function readSecret(folder: string | undefined): string {
  const fresh = randomBytes(32).toString('hex');
  if (folder === undefined) return fresh;
  const path = join(folder, 'secret');
  try {
    const kept = readBoundedFileSync(path).toString('utf8').trim();
    if (/^[\da-f]{64}$/.test(kept)) return kept;
  } catch (cause) {
    if (!isMissing(cause)) throw cause;
  }
  replaceFileSync(path, `${fresh}\n`, { readers: 'private' });
  return fresh;
}

/**
 * Who asked, by a rule of the operator's: what a header says (one that a gateway in front sets), which key was used, or
 * everybody as one. A key itself is never kept: it is hashed under a secret of this installation, so that not even a
 * guessed key can be recognised in the records. Names are bounded in length and number; who finds no place is `other`.
 */
import { hash, randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isMissing } from '../core/files.js';
import { valuesOf, type RawHeaders } from './message-headers.js';

export type TenantRule =
  { readonly from: 'all' } | { readonly from: 'key' } | { readonly from: 'header'; readonly header: string };

export interface TenantOptions {
  readonly rule: TenantRule;
  readonly secret: string;
  /** Names that are told apart at one time. */
  readonly limit: number;
}

export type TenantNamer = (rawHeaders: RawHeaders, nowMs: number) => string;

export const everybody = 'all';
export const nobody = 'none';
export const others = 'other';

const longestName = 64;
/** A tenant that did not ask for so long makes room for another. */
const forgottenMs = 3_600_000;

export function createTenantNamer({ rule, secret, limit }: TenantOptions): TenantNamer {
  if (rule.from === 'all') return () => everybody;
  const lastAsked = new Map<string, number>(); // whoever asked longest ago comes first
  return (rawHeaders, nowMs) => {
    const name = rule.from === 'key' ? nameKey(rawHeaders, secret) : nameHeader(rawHeaders, rule.header);
    if (name === nobody) return name;
    if (!lastAsked.delete(name) && lastAsked.size >= limit) {
      const [oldest] = lastAsked;
      if (oldest === undefined || nowMs - oldest[1] < forgottenMs) return others;
      lastAsked.delete(oldest[0]);
    }
    lastAsked.set(name, nowMs);
    return name;
  };
}

function nameKey(rawHeaders: RawHeaders, secret: string): string {
  // As OpenAI's and Anthropic's clients send it.
  const key = valuesOf(rawHeaders, 'authorization')[0] ?? valuesOf(rawHeaders, 'x-api-key')[0];
  const bare = key?.replace(/^bearer\s+/i, '').trim() ?? '';
  if (bare === '') return nobody;
  return `key-${hash('sha256', `${secret} ${bare}`).slice(0, 12)}`;
}

function nameHeader(rawHeaders: RawHeaders, header: string): string {
  const value = valuesOf(rawHeaders, header.toLowerCase())[0]?.trim() ?? '';
  if (value === '') return nobody;
  return value.slice(0, longestName).replace(/[^\w.@:-]/g, '_');
}

/** Of this installation: kept beside the records, for its owner alone, so that names outlast a restart. */
export function readSecret(folder: string | undefined): string {
  const fresh = randomBytes(32).toString('hex');
  if (folder === undefined) return fresh;
  const path = join(folder, 'secret');
  try {
    const kept = readFileSync(path, 'utf8').trim();
    if (/^[\da-f]{64}$/.test(kept)) return kept;
  } catch (cause) {
    if (!isMissing(cause)) throw cause;
  }
  writeFileSync(path, `${fresh}\n`, { mode: 0o600 });
  return fresh;
}

import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createTenantNamer, readSecret } from './tenant.js';

const secret = 'a secret';
const withKey = (key: string): string[] => ['Host', 'a', 'Authorization', `Bearer ${key}`];

describe('tenants', () => {
  it('by key are the same for the same key, differ for others, and show nothing of it', () => {
    const name = createTenantNamer({ from: 'key', secret, limit: 10 });
    const one = name(withKey('sk-abcdef'), 0);
    expect(one).toMatch(/^key-[\da-f]{12}$/);
    expect(name(['x-api-key', 'sk-abcdef'], 1)).toBe(one);
    expect(name(withKey('sk-abcdeg'), 2)).not.toBe(one);
    expect(name(['Host', 'a'], 3)).toBe('none');
    const elsewhere = createTenantNamer({ from: 'key', secret: 'another', limit: 10 });
    expect(elsewhere(withKey('sk-abcdef'), 0)).not.toBe(one);
  });

  it('by header are short and plain', () => {
    const name = createTenantNamer({ from: 'header', header: 'X-Team', secret, limit: 10 });
    expect(name(['x-team', ' red\u00e9 <b>'], 0)).toBe('red___b_');
    expect(name(['X-TEAM', 'x'.repeat(500)], 0)).toHaveLength(64);
  });

  it('count the last of several headers, which a gateway appended', () => {
    const options = { from: 'header', header: 'x-team', secret, limit: 10 } as const;
    const name = createTenantNamer(options);
    expect(name(['x-team', 'forged', 'X-Team', 'real'], 0)).toBe('real');
    expect(name(['x-team', 'forged, real'], 0)).toBe('real');
    const strict = createTenantNamer({ ...options, rejectSeveral: true });
    expect(strict(['x-team', 'forged', 'X-Team', 'real'], 0)).toBeUndefined();
    expect(strict(['x-team', 'forged, real'], 0)).toBeUndefined();
    expect(strict(['x-team', 'real'], 0)).toBe('real');
  });

  it('are bounded: who is silent for an hour makes room, who comes too late is among the others', () => {
    const name = createTenantNamer({ from: 'header', header: 'x-team', secret, limit: 2 });
    const at = (team: string, ms: number): string | undefined => name(['x-team', team], ms);
    expect([at('a', 0), at('b', 1), at('c', 2), at('a', 3)]).toEqual(['a', 'b', 'other', 'a']);
    expect([at('c', 3_600_002), at('a', 3_600_003), at('b', 3_600_004)]).toEqual(['c', 'a', 'other']);
  });

  it('as one are one', () => {
    expect(createTenantNamer({ from: 'all', secret, limit: 1 })(withKey('sk'), 0)).toBe('all');
  });

  it('keep their names over a restart', () => {
    const folder = mkdtempSync(join(tmpdir(), 'tenant-'));
    const first = readSecret(folder);
    expect(readSecret(folder)).toBe(first);
    expect(statSync(join(folder, 'secret')).mode & 0o777).toBe(0o600);
    expect(readSecret(undefined)).not.toBe(readSecret(undefined));
    rmSync(folder, { recursive: true });
  });
});

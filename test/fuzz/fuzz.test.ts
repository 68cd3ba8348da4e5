/**
 * A bounded run over every kind of file; `npm run fuzz` runs them for long. A fault is replayed by its kind and seed:
 * `npm run fuzz -- KIND --seed SEED --runs 1`.
 */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { transpileForTests } from '../support/transpiled-sources.js';
import { mostBytes } from './kind.js';
import { fuzzKinds } from './kinds.js';
import { runKind } from './run-kind.js';

const { folder: build } = transpileForTests('fuzz', ['src', 'test/fuzz', 'test/support']);

describe('files of strangers are read, or refused in one sentence', () => {
  it.each(fuzzKinds)('$name', { timeout: 300_000 }, async ({ name, boundedRuns }) => {
    const run = await runKind(join(build, 'test/fuzz/worker.js'), name, 1, boundedRuns);
    expect(run.faults.map(({ seed, what }) => `${name}, seed ${seed}: ${what}`)).toEqual([]);
    expect(run.files).toBe(boundedRuns);
    expect(run.peakBytes).toBeLessThan(mostBytes);
    // Damage that is always refused, or never, tests nothing.
    expect(run.accepted).toBeGreaterThan(0);
    if (name !== 'report') expect(run.refused).toBeGreaterThan(0);
  });
});

/**
 * A bounded run over every kind of file, all in one process; `npm run fuzz` runs them for long. A fault is replayed
 * by its kind and seed: `npm run fuzz -- KIND --seed SEED --runs 1`.
 */
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { transpileForTests } from '../support/transpiled-sources.js';
import type { FuzzKind } from './kind.js';
import { maxBytes } from './kind.js';
import { fuzzKinds } from './kinds.js';
import type { KindRun } from './run-kinds.js';
import { runKinds } from './run-kinds.js';

const { folder: build } = transpileForTests('fuzz', ['src', 'test/fuzz', 'test/support']);

const countFiles = ({ boundedRuns }: FuzzKind): number => Math.ceil(boundedRuns / 6);

describe('files of strangers are read, or refused in one sentence', () => {
  let runs: ReadonlyMap<string, KindRun>;
  beforeAll(async () => {
    const plans = fuzzKinds.map((kind) => ({ kind: kind.name, first: 1, count: countFiles(kind) }));
    runs = await runKinds(join(build, 'test/fuzz/worker.js'), plans);
  });

  it.each(fuzzKinds)('$name', (kind) => {
    const { name } = kind;
    const run = runs.get(name)!;
    expect(run.faults.map(({ seed, what }) => `${name}, seed ${seed}: ${what}`)).toEqual([]);
    expect(run.files).toBe(countFiles(kind));
    expect(run.peakBytes).toBeLessThan(maxBytes);
    // Damage that is always refused, or never, tests nothing.
    expect(run.accepted).toBeGreaterThan(0);
    if (name !== 'report') expect(run.refused).toBeGreaterThan(0);
  });
});

/** A few files of every kind, all in one process. The full tier tries more (fuzz.full.test.ts). */
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { transpileForTests } from '../support/transpiled-sources.js';
import { fuzzKinds } from './kinds.js';
import type { KindRun } from './run-kinds.js';
import { runKinds } from './run-kinds.js';

const { folder: build } = transpileForTests('fuzz', ['src', 'test/fuzz', 'test/support']);

describe('files of strangers are read, or refused in one sentence', () => {
  const plans = fuzzKinds.map(({ name, boundedRuns }) => ({
    ...{ kind: name, first: 1, count: Math.ceil(boundedRuns / 40) },
  }));
  let runs: ReadonlyMap<string, KindRun>;
  beforeAll(async () => {
    runs = await runKinds(join(build, 'test/fuzz/worker.js'), plans);
  });

  it.each(plans)('$kind', ({ kind, count }) => {
    const { files, accepted, refused, faults } = runs.get(kind)!;
    expect(faults.map(({ seed, what }) => `${kind}, seed ${seed}: ${what}`)).toEqual([]);
    expect([files, accepted + refused]).toEqual([count, count]);
  });
});

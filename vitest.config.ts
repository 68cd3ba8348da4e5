import { defineConfig } from 'vitest/config';

// Three projects, each test file in exactly one: `quick` needs nothing but this repository and is what `npm test` runs;
// `full` adds `*.full.test.ts`; `shared` reads ../shared (golden values, prompt sets) and skips where it is absent.
const everywhere = ['src/**/*.test.ts', 'test/**/*.test.ts'];
const full = '**/*.full.test.ts';
const shared = 'test/shared/**';
const never = ['**/node_modules/**'];

export default defineConfig({
  test: {
    projects: [
      { extends: true, test: { name: 'quick', include: everywhere, exclude: [full, shared, ...never] } },
      { extends: true, test: { name: 'full', include: [full], exclude: never } },
      { extends: true, test: { name: 'shared', include: [`${shared}/*.test.ts`], exclude: never } },
    ],
    globalSetup: 'test/support/temporary-home.ts',
    sequence: { shuffle: true }, // keeps tests independent of each other
    // Hang guards, not limits: a busy machine may be twenty times slower than a quiet one.
    testTimeout: 1_200_000,
    hookTimeout: 1_200_000,
    teardownTimeout: 60_000,
    maxWorkers: 2,
    isolate: false, // loading the modules anew for each file costs minutes
  },
});

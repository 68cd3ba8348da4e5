import { defineConfig } from 'vitest/config';

// Two projects. `quick` needs nothing but this repository and is what `npm test` runs; `full` adds `*.full.test.ts`, the other
// half of `*.tiers.test.ts`, and suites that read ../shared (golden values, prompt sets), which skip where it is absent.
// A project costs seconds of CPU, because each transforms and loads the sources for itself.
const everywhere = ['src/**/*.test.ts', 'test/**/*.test.ts', 'bench/**/*.test.ts'];
const full = '**/*.full.test.ts';
const tiers = '**/*.tiers.test.ts';
const shared = 'test/shared/*.test.ts';
const never = ['**/node_modules/**', 'out/**'];

const project = (name: string, include: string[], exclude: string[], tier: 'quick' | 'full') => ({
  extends: true as const,
  test: { name, include, exclude: [...exclude, ...never], provide: { tier } },
});

export default defineConfig({
  test: {
    projects: [
      project('quick', everywhere, [full, shared], 'quick'),
      project('full', [full, tiers, shared], [], 'full'),
    ],
    globalSetup: 'test/support/temporary-home.ts',
    sequence: { shuffle: true }, // keeps tests independent of each other
    // Hang guards, not limits: a busy machine may be twenty times slower than a quiet one.
    testTimeout: 1_200_000,
    hookTimeout: 1_200_000,
    teardownTimeout: 600_000,
    maxWorkers: 2,
    isolate: false, // loading the modules anew for each file costs minutes
  },
});

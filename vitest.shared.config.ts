import { defineConfig } from 'vitest/config';

// Suites that read ../shared (golden values, prompt sets). Each says so and skips where the folder is absent.
export default defineConfig({
  test: {
    include: ['test/shared/**/*.test.ts'],
    globalSetup: 'test/support/temporary-home.ts',
    sequence: { shuffle: true },
    testTimeout: 300_000,
    hookTimeout: 120_000,
    maxWorkers: 2,
  },
});

import { defineConfig } from 'vitest/config';

// The default run needs nothing but this repository. Random order keeps tests independent of each other.
export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    exclude: ['test/shared/**', '**/node_modules/**'],
    globalSetup: 'test/support/temporary-home.ts',
    sequence: { shuffle: true },
    testTimeout: 60_000,
    hookTimeout: 120_000, // some compile or transpile before the first test
    maxWorkers: 2,
    isolate: false, // a process of its own for each file costs minutes, most of them for loading modules
  },
});

import { expect, it } from 'vitest';
import type { BatchPlan } from '../data/batches.js';
import { defaultSettings } from '../settings.js';
import type { BatchLoss, Trainer } from './trainer.js';
import type { Pair } from './losses.js';
import type { LogLine } from './training-state.js';
import { trainSteps } from './training-loop.js';

const batchLoss: BatchLoss = { count: 8, loss: 24, levels: [10, 6, 0], parts: {}, rows: [5, 2, 0] };

it('a level is logged as the mean over the rows it counts, with their number', async () => {
  const lines: LogLine[] = [];
  const trainer: Pick<Trainer, 'accumulate' | 'update'> = {
    accumulate: () => Promise.resolve(batchLoss),
    update: () => Promise.resolve(1),
  };
  const plan: Pick<BatchPlan, 'batchAt'> = { batchAt: () => ({ texts: [] }) as never };
  const settings = defaultSettings({ system: 'eagle3', maximumDepth: Infinity });
  const ended = await trainSteps(
    {
      ...{ pair: {} as Pair, trainer: trainer as Trainer, plan: plan as BatchPlan, validation: [] },
      settings: { ...settings, steps: 1, depth: 3, accumulation: 2 },
      onLine: (line) => lines.push(line),
      keepBest: () => Promise.resolve(),
      save: () => Promise.resolve(),
      keepSaved: () => Promise.resolve(''),
    },
    { update: 0, best: null, sinceBest: 0, elapsedMs: 0 },
  );
  expect(ended).toBe('steps');
  expect(lines).toMatchObject([{ loss: 3, tokens: 16, levels: [2, 3, 0], levelRows: [10, 4, 0] }]);
});

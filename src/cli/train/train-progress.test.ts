import { describe, expect, it } from 'vitest';
import type { LogLine } from '../../train/loop/training-state.js';
import type { StartedTraining } from '../../train/train-run.js';
import { createFakeTerminal } from '../../../test/support/fake-terminal.js';
import { createProgress } from '../progress.js';
import { createTrainProgress } from './train-progress.js';

function begin(mode: 'plain' | 'json') {
  const terminal = createFakeTerminal();
  const clock = { ms: 0 };
  const events = createTrainProgress(
    createProgress(mode, terminal.stderr, () => clock.ms),
    () => clock.ms,
  );
  return { events, clock, read: () => terminal.written.err };
}

const started = (update: number): StartedTraining =>
  ({
    request: { settings: { steps: 20 } },
    texts: { trainingCounts: { examples: 9, learntTokens: 12_345 }, heldOutCounts: { examples: 1 } },
    ...{ parameterCount: 2_500_000, update },
  }) as unknown as StartedTraining;

const update = (number: number, loss: number): LogLine => ({
  ...{
    kind: 'update',
    update: number,
    loss,
    levels: [loss],
    levelRows: [1],
    norm: 1,
    rate: 0.001,
    tokens: 100,
  },
});

describe('progress of a training run', () => {
  it('tells of the answers by those of this start alone', () => {
    const { events, clock, read } = begin('plain');
    events.onAnswers?.({ done: 10, total: 20, newTokens: 0 });
    clock.ms = 20_000;
    events.onAnswers?.({ done: 12, total: 20, newTokens: 400 });
    expect(read()).toBe(
      'answers: 20 to do\nanswers: 10/20 (50 %)\nanswers: 12/20 (60 %)  left 80 s  20 tokens/s\n',
    );
  });

  it('says nothing of answers that are all there', () => {
    const { events, read } = begin('plain');
    events.onAnswers?.({ done: 20, total: 20, newTokens: 0 });
    expect(read()).toBe('');
  });

  it('tells of updates, with a loss that is smoothed and the last measurement', () => {
    const { events, clock, read } = begin('plain');
    events.onStart?.(started(0));
    events.onLine?.({ kind: 'length', update: 0, length: 1.25, steps: 4, reached: [0.25] });
    clock.ms = 10_000;
    events.onLine?.(update(1, 4));
    events.onLine?.(update(2, 2));
    expect(read()).toBe(
      [
        'train: 2.50 million parameters, 9 texts with 12 345 tokens to predict, 1 held out, 20 updates',
        'train: 20 to do',
        `train: 2/20 (10 %)  left 2 min  loss ${((0.9 * 4 + 2) / 1.9).toFixed(3)}  accepted 1.25  20 tokens/s`,
        '',
      ].join('\n'),
    );
  });

  it('goes on with the pace of this start', () => {
    const { events, clock, read } = begin('plain');
    events.onStart?.(started(10));
    clock.ms = 6000;
    events.onLine?.(update(12, 1));
    expect(read()).toContain('20 updates, resumed after update 10\n');
    expect(read()).toContain('train: 12/20 (60 %)  left 25 s  loss 1.000  17 tokens/s\n');
  });

  it('gives programs numbers', () => {
    const { events, clock, read } = begin('json');
    events.onStart?.(started(0));
    clock.ms = 1000;
    events.onLine?.(update(1, 4.5));
    const told = read()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(told.at(-1)).toMatchObject({
      ...{ event: 'progress-update', label: 'train', done: 1, total: 20, loss: 4.5, leftMs: 19_000 },
    });
  });
});

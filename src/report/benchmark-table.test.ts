import { describe, expect, it } from 'vitest';
import type { BenchmarkResult, RequestRecord } from '../measure/benchmark-summary.js';
import { summariseByCategory, summariseBySet } from '../measure/benchmark-summary.js';
import { plainRecord, speculativeRecord } from '../../test/support/measure/sample-records.js';
import type { BenchmarkSetting } from './benchmark-table.js';
import { formatBenchmark } from './benchmark-table.js';

const setting: BenchmarkSetting = {
  target: 'llama',
  machine: {
    device: { kind: 'cpu', dtype: 'float32' },
    processor: 'Abacus 3000',
    cores: 4,
    memoryBytes: 8e9,
    system: 'Linux',
    architecture: 'x64',
    nodeVersion: 'v20.1.0',
    mistletoeVersion: '0.1.0',
  },
  threads: 2,
  maxNewTokens: 96,
  sampling: { temperature: 0 },
  seed: 7,
  warmup: 1,
  concurrency: 1,
};

interface Pair {
  readonly promptId: string;
  readonly category?: string;
  readonly speculativeMs: number;
  readonly equalsPlain?: boolean | undefined;
  readonly lossReason?: string;
  readonly drafterFailed?: boolean;
}

/** Eleven tokens, 1000 ms by plain decoding, two steps of five tokens by speculation. */
const answers = ({ speculativeMs, ...rest }: Pair): RequestRecord[] => [
  plainRecord({ ...rest, tokens: 11, decodeMs: 1000 }),
  speculativeRecord({
    ...{ ...rest, tokens: 11, decodeMs: speculativeMs, accepted: [4, 4] },
    ...{ draftMs: speculativeMs / 4, verifyMs: speculativeMs / 2 },
  }),
];

/** One prompt for each time. */
const times = (...all: readonly number[]): Pair[] =>
  all.map((speculativeMs, index) => ({ promptId: `p${index}`, speculativeMs }));

function format(
  pairs: readonly Pair[],
  changes: Partial<BenchmarkResult> = {},
  where: BenchmarkSetting = setting,
): string {
  const records = pairs.flatMap(answers);
  return formatBenchmark(
    {
      records,
      summaries: summariseBySet(records),
      categories: summariseByCategory(records),
      interrupted: false,
      ...changes,
    },
    where,
  );
}

describe('a benchmark as Markdown', () => {
  const text = format(times(500, 500, 500, 500, 500));

  it('has a row for plain decoding and one for each system, and says what is counted', () => {
    const [header, rule, plain, eagle3] = text.split('\n');
    expect(header).toContain('mean accepted length (bonus token included)');
    expect(rule).toMatch(/^(\| -+:? )+\|$/);
    const cells = (line = '') => line.split('|').map((cell) => cell.trim());
    expect(cells(plain).slice(1, -1)).toEqual([
      ...['code', 'plain', 'none', '5', '1', '1'],
      ...['10.0', '10.0', '1x', ''],
    ]);
    expect(cells(eagle3).slice(1, -1)).toEqual([
      ...['code', 'eagle3', 'chain:4', '5', '5.00 (5.00 to 5.00)', '5.00'],
      ...['10.0', '20.0', '2.00x (2.00 to 2.00x)', '25 % / 50 % / 25 %'],
    ]);
    expect(
      new Set(
        text
          .split('\n')
          .slice(0, 4)
          .map(({ length }) => length),
      ).size,
    ).toBe(1);
  });

  it('names what was run where', () => {
    expect(text).toContain('Target model llama, greedy, at most 96 new tokens, seed 7, 1 warm-up answer per');
    expect(text).toContain(
      'Machine: Abacus 3000, 4 cores, 2 threads, Linux x64, Node v20.1.0, Mistletoe 0.1.0.',
    );
  });

  it('names the GPU and the type where one computed', () => {
    const device = { kind: 'cuda', dtype: 'bfloat16', ordinal: 1, name: 'Abacus GPU' } as const;
    const where = { ...setting, machine: { ...setting.machine, device } };
    const onGpu = format([{ promptId: 'a', speculativeMs: 500 }], {}, where);
    expect(onGpu).toContain('Machine: Abacus GPU (cuda:1) in bfloat16; Abacus 3000, 4 cores,');
  });

  it('shows acceptance by depth', () => {
    expect(text).toMatch(/\| eagle3 \| chain:4 \| 100 % \| 100 % \| 100 % \| 100 % \|/);
  });

  it('says where speculation pays, where it does not and where it is open', () => {
    expect(text).toContain('Speculation pays in every row.');
    const losing = format(times(2000, 2000, 2000, 2000, 2000));
    expect(losing).toContain(
      'Speculation does not pay, it is slower than plain: eagle3 chain:4 on code (0.50x).',
    );
    const open = format(times(2000, 500, 2000, 500, 2000, 500));
    expect(open).toContain('No clear gain, the interval holds 1x: eagle3 chain:4 on code (0.80x).');
    expect(open).not.toContain('pays in every row');
  });

  it('says whether answers are plain decoding’s', () => {
    expect(text).toContain('Every answer equals plain decoding’s, token for token.');
    const differing = format([
      { promptId: 'a', speculativeMs: 500, equalsPlain: false },
      { promptId: 'b', speculativeMs: 500 },
    ]);
    expect(differing).toContain('**eagle3 chain:4 on code: 1 of 2 answers differ');
    expect(differing).not.toContain('Every answer equals');
    const drawn = format([{ promptId: 'a', speculativeMs: 500, equalsPlain: undefined }]);
    expect(drawn).toContain('answers are not compared');
  });

  it('says that quantized weights are lossy, whether or not answers differ', () => {
    const lossReason = 'int8 weights';
    const same = { promptId: 'a', speculativeMs: 500, lossReason };
    const differing = { promptId: 'b', speculativeMs: 500, lossReason, equalsPlain: false };
    expect(format([same])).toContain(
      'Every answer equals plain decoding’s, token for token, but int8 weights do not guarantee that.',
    );
    const text = format([same, differing]);
    expect(text).toContain(
      '- eagle3 chain:4 on code: 1 of 2 answers differ from plain decoding’s: drafting with int8 weights is lossy.',
    );
    expect(text).not.toContain('0 was expected');
  });

  it('gives four prompts no interval and draws no conclusion from them', () => {
    const few = format(times(500, 400, 600, 500));
    expect(few).toMatch(/\| +2\.00x \|/);
    expect(few).not.toMatch(/Speculation|No clear gain/);
    expect(few).toContain('With fewer than 5 prompts there is no interval.');
    expect(text).not.toContain('there is no interval');
  });

  it('shows categories side by side where there are several', () => {
    expect(text).not.toContain('By category');
    const byCategory = format([
      { promptId: 'a', category: 'x', speculativeMs: 500 },
      { promptId: 'b', category: 'y|z', speculativeMs: 1000 },
    ]);
    expect(byCategory).toMatch(/\| category \| +n \| eagle3 chain:4 \|/);
    expect(byCategory).toMatch(/\| x +\| +1 \| +5\.00, 2\.00x \|/);
    expect(byCategory).toMatch(/\| y\\\|z +\| +1 \| +5\.00, 1\.00x \|/);
  });

  it('mentions failing drafters and an interruption', () => {
    const failing = format([{ promptId: 'a', speculativeMs: 500, drafterFailed: true }], {
      interrupted: true,
    });
    expect(failing).toContain('the drafter failed in 1 of 1 answers');
    expect(failing).toContain('The run was interrupted');
  });
});

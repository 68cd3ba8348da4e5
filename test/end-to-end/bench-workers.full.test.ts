/** A benchmark in several processes: the answers of one process. */
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import type { BenchmarkResult } from '../../src/measure/benchmark-summary.js';
import * as units from '../../src/runs/bench-units.js';
import { seatWorkers } from '../../src/runs/run-device.js';
import { inlinePrompt } from '../../src/text/prompts/prompt-set.js';
import { TinyAudits } from '../support/tiny-audit.js';
import { shallow } from '../support/tiny-checkpoints.js';
import { transpileForTests } from '../support/transpiled-sources.js';

const { folder } = transpileForTests('bench-workers');
const models = new TinyAudits(shallow);
afterAll(() => models.dispose());

const plan: units.BenchPlan = {
  target: models.targetFolder,
  drafters: ['draft model', 'Medusa, torch file'].map((variant, index) => ({
    name: `drafter-${index + 1}`,
    source: models.writeDrafter(variant),
    policies: [{ kind: 'chain', length: 2 }],
  })),
  promptSets: ['first', 'second'].map((name) => ({
    name,
    prompts: ['abcdefgh', 'hgfedcba', 'abababab'].map((text, index) => {
      return { ...inlinePrompt(text), id: `${name}-${index + 1}` };
    }),
  })),
  ...{ maxNewTokens: 12, sampling: { temperature: 0 }, seed: 0, warmup: 1, concurrency: 1 },
  cacheFolder: models.cacheFolder,
};

const answersOf = ({ records }: BenchmarkResult) =>
  records.map(({ set, promptId, system, policy, tokenIds, speculation }) => {
    return { set, promptId, system, policy, tokenIds, acceptance: speculation?.acceptance };
  });

it('gives the answers of one process', async () => {
  const runtime = createOnnxRuntime({ threads: 1 });
  const runner = await units.openBench(plan, runtime, { onNotice: () => undefined });
  const alone = await runner.runAll({});
  await runtime.dispose();
  // Worker processes run beside the compiled module.
  const module = join(folder, 'src/runs/bench-units.js');
  const { runBenchUnits } = (await import(/* @vite-ignore */ module)) as typeof units;
  const done: number[] = [];
  const failures: string[] = [];
  const result = await runBenchUnits(plan, seatWorkers({ count: 2 }, { kind: 'cpu', dtype: 'float32' }), {
    onGeneration: (progress) => void done.push(progress.done),
    onFailure: (unit) => void failures.push(unit),
  });
  expect(failures).toEqual([]);
  expect(answersOf(result)).toEqual(answersOf(alone));
  expect(result.summaries.map(({ set, system }) => `${set} ${system}`)).toEqual(
    alone.summaries.map(({ set, system }) => `${set} ${system}`),
  );
  expect(done.at(-1)).toBe(18);
});

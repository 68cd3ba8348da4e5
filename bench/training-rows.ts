/**
 * Training on rows of one text each, padded, and on rows packed with several: how much of the batches is padding, and how
 * many tokens of texts a step learns from in a second. Every tenth question of shared/data with the target's own answers;
 * batches of both kinds by turns in one run.
 * Run: npm run bench:training-rows [-- --every 10 --batch-tokens 1024 --batches 60 --threads 2]
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { bundledDrafterFolder, bundledTarget, packageRoot } from '../src/decode/bundled-models.js';
import { openTarget } from '../src/decode/target.js';
import { loadDrafter } from '../src/draft/load-drafter.js';
import { describeMachine } from '../src/measure/machine.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { adamDefaults } from '../src/train/loop/adamw.js';
import type { BatchPlan } from '../src/train/data/batches.js';
import { readConversations } from '../src/train/data/conversations.js';
import { readParameters } from '../src/train/loop/parameters.js';
import { defaultSettings, objectiveOf } from '../src/train/settings.js';
import type { TextBatch } from '../src/train/data/text-batch.js';
import { Trainer } from '../src/train/loop/trainer.js';
import { prepareTexts } from '../src/train/data/training-texts.js';
import { median, printTable } from './stopwatch.js';

const { values: given } = parseArgs({
  options: {
    every: { type: 'string', default: '10' },
    'batch-tokens': { type: 'string', default: '1024' },
    batches: { type: 'string', default: '60' },
    threads: { type: 'string', default: '2' },
  },
});
const threads = Number(given.threads);
const batchTokens = Number(given['batch-tokens']);
const batches = Number(given.batches);
const kinds = ['padded', 'packed'] as const;

const { processor, architecture } = describeMachine();
const all = await readConversations(join(packageRoot, '../shared/data/train.jsonl'));
const conversations = all.filter((_, index) => index % Number(given.every) === 0);
const runtime = createOnnxRuntime({ threads });
const target = await openTarget(bundledTarget, { runtime, date: '2026-01-01' });
const folder = mkdtempSync(join(tmpdir(), 'mistletoe-rows-'));
const plans = new Map<(typeof kinds)[number], BatchPlan>();
for (const rows of kinds) {
  const settings = { ...defaultSettings({ system: 'eagle3', maximumDepth: Infinity }), batchTokens, rows };
  // The second finds the answers of the first.
  const texts = await prepareTexts(target, conversations, { ...settings, learn: 'all' }, { folder });
  plans.set(rows, texts!.plan);
}
rmSync(folder, { recursive: true });
console.log(
  `${processor} (${architecture}), ${threads} threads, ${conversations.length} questions with answers, batches of up to ${batchTokens} tokens\n`,
);
printTable([
  ['rows', 'batches', 'longest row', 'padding'],
  ...[...plans].map(([rows, plan]) => [
    ...[rows, String(plan.batchesPerEpoch)],
    String(Math.max(...listBatches(plan, plan.batchesPerEpoch).map(({ shape }) => shape[1]))),
    `${(100 * plan.paddingShare).toFixed(1)} %`,
  ]),
]);

const table = [['drafter', 'rows', 'tokens of texts/s, median of batches', 'all batches', 'loss per token']];
for (const name of ['eagle3', 'sps'] as const) {
  const drafter = await loadDrafter(bundledDrafterFolder(name), { target: target.model });
  const trainer = await Trainer.create({ target: target.model, drafter }, await readParameters(drafter), {
    ...{ objective: objectiveOf(defaultSettings(drafter)), adam: adamDefaults, seed: 0 },
  });
  const measured = kinds.map((rows) => ({
    rows,
    speeds: [] as number[],
    tokens: 0,
    ms: 0,
    loss: 0,
    count: 0,
  }));
  const queues = kinds.map((rows) => listBatches(plans.get(rows)!, batches));
  for (let step = 0; step < batches; step++)
    for (const [kind, own] of measured.entries()) {
      const batch = queues[kind]![step]!;
      const began = performance.now();
      const { loss, count } = await trainer.accumulate(batch, step);
      // The bundled weights stay as they are, so that losses compare.
      await trainer.update(0, 0);
      const ms = performance.now() - began;
      const tokens = batch.texts.reduce((sum, { length }) => sum + length, 0);
      own.loss += loss;
      own.count += count;
      if (step === 0) continue; // it warms up
      own.speeds.push((1000 * tokens) / ms);
      own.tokens += tokens;
      own.ms += ms;
    }
  await trainer.dispose();
  for (const { rows, speeds, tokens, ms, loss, count } of measured)
    table.push([
      ...[name === 'sps' ? 'draft model' : 'EAGLE-3', rows, median(speeds).toFixed(0)],
      ...[((1000 * tokens) / ms).toFixed(0), (loss / count).toFixed(3)],
    ]);
}
await runtime.dispose();
console.log('');
printTable(table);

/** The first of them. */
function listBatches(plan: BatchPlan, count: number): readonly TextBatch[] {
  return Array.from({ length: count }, (_, step) => plan.batchAt(step));
}

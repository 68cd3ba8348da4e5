/**
 * Whether a drafter has learnt its texts by heart: the mean loss over answers that were trained on and over those that
 * were held out, as `mistletoe train` parts them. The answers are those of an earlier run.
 * Run: npm run bench:training-gap -- --answers RUN [--data FILE] DRAFTER...
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { findDrafter } from '../src/decode/find-drafter.js';
import { bundledTarget, packageRoot } from '../src/decode/bundled-models.js';
import { openTarget } from '../src/decode/target.js';
import { loadDrafter } from '../src/draft/load-drafter.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { adamDefaults } from '../src/train/loop/adamw.js';
import { readConversations } from '../src/train/data/conversations.js';
import { readParameters } from '../src/train/loop/parameters.js';
import { defaultSettings, objectiveOf } from '../src/train/settings.js';
import { readEarlierRun, takeAnswers } from '../src/train/data/taken-answers.js';
import { Trainer } from '../src/train/loop/trainer.js';
import type { TextBatch } from '../src/train/data/text-batch.js';
import { prepareTexts } from '../src/train/data/training-texts.js';
import { printTable } from './stopwatch.js';

const { values: given, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    answers: { type: 'string' },
    data: { type: 'string', default: join(packageRoot, '../shared/data/train.jsonl') },
  },
});
if (given.answers === undefined) throw new Error('Give --answers the folder of an earlier run.');
const { date, folder: earlier } = readEarlierRun(given.answers);
const folder = mkdtempSync(join(tmpdir(), 'mistletoe-gap-'));
takeAnswers(earlier, folder, 'train');
const runtime = createOnnxRuntime({ threads: 2 });
const target = await openTarget(bundledTarget, { runtime, date });
const settings = {
  ...defaultSettings({ system: 'speculative-sampling', maximumDepth: Infinity }),
  batchTokens: 1024,
};
const conversations = await readConversations(given.data);
const texts = await prepareTexts(target, conversations, { ...settings, learn: 'answers' }, { folder });
const { plan, validation } = texts!;
// As many batches as are held out, from all over the epoch.
const step = Math.floor(plan.batchesPerEpoch / validation.length);
const trained = validation.map((_, index) => plan.batchAt(index * step));
const rows = [['drafter', 'loss on answers trained on', 'held out']];
for (const name of positionals) {
  const drafter = await loadDrafter(findDrafter(name), { target: target.model, tokenizer: target.tokenizer });
  const trainer = await Trainer.create({ target: target.model, drafter }, await readParameters(drafter), {
    ...{ objective: objectiveOf(defaultSettings(drafter)), adam: adamDefaults, seed: 0 },
  });
  rows.push([name, await meanLoss(trainer, trained), await meanLoss(trainer, validation)]);
  await trainer.dispose();
}
await runtime.dispose();
rmSync(folder, { recursive: true });
printTable(rows);

async function meanLoss(trainer: Trainer, batches: readonly TextBatch[]): Promise<string> {
  let [loss, count] = [0, 0];
  for (const batch of batches) {
    const own = await trainer.accumulate(batch, 0);
    loss += own.loss;
    count += own.count;
  }
  trainer.forgetGradients();
  return (loss / count).toFixed(2);
}

/** DSpark's training loss against its definition, from the float64 reference of target and drafter. */
import { afterAll, expect, it } from 'vitest';
import { defaultSettings } from '../../src/train/settings.js';
import { adamDefaults } from '../../src/train/loop/adamw.js';
import { readParameters } from '../../src/train/loop/parameters.js';
import { Trainer } from '../../src/train/loop/trainer.js';
import { PublishedPairs, textFor } from './drafting.js';
import { createBlockReference } from './float64-blocks.js';
import { Float64Model } from './float64-model.js';
import { logSoftmax } from './float64-tensors.js';
import { blockRows } from './published-blocks.js';

const pairs = new PublishedPairs();
afterAll(() => pairs.dispose());

const depth = 3;
const firstLearned = 4;
const dsparkRows = blockRows.filter(({ folder }) => 'confidence_head.proj.weight' in folder.tensors);

it.each(dsparkRows)('$name learns by the published loss', async (row) => {
  const text = textFor(row).slice(0, 10);
  const objective = { ...defaultSettings({ system: 'dspark', maximumDepth: 7 }), depth };
  const pair = await pairs.open(row);
  const values = await readParameters(pair.drafter);
  const trainer = await Trainer.create(pair, values, { objective, adam: adamDefaults, seed: 1 });
  const { loss, parts, rows } = await trainer.accumulate(
    {
      tokens: Int32Array.from(text),
      weights: Float32Array.from(text, (_, position) => +(position >= firstLearned)),
      shape: [1, text.length],
      texts: [{ id: 'text', row: 0, start: 0, length: text.length }],
    },
    0,
  );
  await trainer.dispose();

  const target = new Float64Model(row.target.folder.tensors, row.target.facts);
  const pass = target.run(text);
  const reference = createBlockReference(row.folder.tensors, target, row.facts);
  let [expected, distances, confidences, count] = [0, 0, 0, 0];
  for (let level = 0; level < depth; level++) {
    for (let root = 1; root + 1 + level < text.length; root++) {
      const label = root + 1 + level;
      if (label < firstLearned) continue;
      const path = text.slice(root + 1, label);
      const drafted = reference.score({ pass, root }, path);
      const taught = logSoftmax(pass.logits[label - 1]!).map(Math.exp);
      const distance = taught.reduce((sum, p, token) => sum + Math.abs(p - Math.exp(drafted[token]!)), 0);
      const accepted = 1 - distance / 2;
      const predicted = reference.confidence({ pass, root }, path);
      const confidence = -accepted * Math.log(predicted) - (1 - accepted) * Math.log(1 - predicted);
      const decay = Math.exp(-level / 4);
      expected += decay * (-0.1 * drafted[text[label]!]! + 0.9 * distance + confidence);
      distances += distance;
      confidences += confidence;
      count += 1;
    }
  }
  expect(rows.reduce((sum, each) => sum + each, 0)).toBe(count);
  expect(parts.distance! / distances).toBeCloseTo(1, 3);
  expect(parts.confidence! / confidences).toBeCloseTo(1, 3);
  expect(loss / expected).toBeCloseTo(1, 3);
});

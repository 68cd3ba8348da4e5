import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../../../test/support/checkpoint/temporary-folder.js';
import { tiny } from '../../../test/support/tiny-checkpoints.js';
import { drafterVariants } from '../../../test/support/tiny-drafters.js';
import type { TinyPair } from '../../../test/support/tiny-pair.js';
import { randomTokens, TinyModels } from '../../../test/support/tiny-pair.js';
import { adamDefaults } from './adamw.js';
import type { Objective } from './losses.js';
import { readParameters } from './parameters.js';
import { StateStore } from './state-store.js';
import { Trainer } from './trainer.js';
import type { TextBatch } from '../data/batches.js';

const models = new TinyModels(tiny);
const folder = makeTemporaryFolder();
afterAll(async () => {
  await models.dispose();
  folder.remove();
});

const objective: Objective = {
  ...{ depth: 2, labels: 'soft', decay: 0.8, featureWeight: 0, labelWeight: 1, noise: 0 },
};
const length = 16;
const text = (name: string, end: number): Pick<TextBatch, 'tokens' | 'weights'> => ({
  tokens: Int32Array.from(randomTokens(name, length, tiny.vocabularySize), (token, position) =>
    position < end ? token : 0,
  ),
  weights: Float32Array.from({ length }, (_, position) => +(position >= 4 && position < end)),
});
const [one, two] = [text('one', 16), text('two', 11)];
const batchOf = (...texts: readonly (readonly [string, typeof one])[]): TextBatch => ({
  tokens: Int32Array.from(texts.flatMap(([, { tokens }]) => [...tokens])),
  weights: Float32Array.from(texts.flatMap(([, { weights }]) => [...weights])),
  shape: [texts.length, length],
  texts: texts.map(([id], row) => ({ id, row, start: 0, length })),
});
const both = batchOf(['one', one], ['two', two]);
/** One row for the two of them. */
const packed: TextBatch = {
  ...{ tokens: both.tokens, weights: both.weights, shape: [1, 2 * length] },
  texts: both.texts.map((text) => ({ ...text, row: 0, start: text.row * length })),
};

describe('a trainer', () => {
  let pair: TinyPair;
  beforeAll(async () => {
    const variant = drafterVariants.find(({ name }) => name.startsWith('EAGLE-3'))!;
    pair = await models.load(variant.write(models.freshFolder(), tiny));
  });
  const create = async (store?: StateStore): Promise<Trainer> =>
    Trainer.create(pair, await readParameters(pair.drafter), {
      ...{ objective, adam: { ...adamDefaults, clip: 10 }, seed: 1, store },
    });

  it('sums gradients over batches as over one batch of all their texts', async () => {
    const trainer = await create();
    const whole = await trainer.accumulate(both, 0);
    const gradients = await trainer.buffers.read(['gradient']);
    trainer.forgetGradients();
    const parts = [
      await trainer.accumulate(batchOf(['one', one]), 0),
      await trainer.accumulate(batchOf(['two', two]), 1),
    ];
    expect(parts[0]!.loss + parts[1]!.loss).toBeCloseTo(whole.loss, 3);
    expect(parts[0]!.count + parts[1]!.count).toBe(whole.count);
    for (const [name, values] of await trainer.buffers.read(['gradient']))
      values.forEach((value, index) => {
        expect(value, name).toBeCloseTo(gradients.get(name)![index]!, 3);
      });
    await trainer.dispose();
  });

  it('counts the rows that a level is judged by', async () => {
    const trainer = await Trainer.create(pair, await readParameters(pair.drafter), {
      ...{ objective: { ...objective, labels: 'tokens' }, adam: adamDefaults, seed: 1 },
    });
    const { rows, count } = await trainer.accumulate(both, 0);
    await trainer.dispose();
    const drafted = new Set(pair.drafter.graph!.targetTokens);
    const expected = [0, 1].map((level) =>
      [one, two].reduce(
        (sum, { tokens, weights }) =>
          sum +
          weights.filter(
            (weight, position) => weight > 0 && position >= level + 2 && drafted.has(tokens[position]!),
          ).length,
        0,
      ),
    );
    expect(rows).toEqual(expected);
    expect(expected[0]).toBeLessThan(count); // the draft vocabulary leaves tokens out
  });

  it('learns two texts by heart, and goes on from a saved state to the same bytes', async () => {
    const trainer = await create();
    const losses: number[] = [];
    let saved: ReadonlyMap<string, Float32Array> | undefined;
    for (let update = 0; update < 40; update++) {
      if (update === 25) saved = await trainer.buffers.read();
      const { loss, count } = await trainer.accumulate(both, update);
      losses.push(loss / count);
      await trainer.update(update, 3e-3);
    }
    expect(losses.at(-1)!).toBeLessThan(0.9 * losses[0]!);
    const ended = await trainer.buffers.read();
    trainer.buffers.restore(saved!);
    trainer.forgetGradients();
    for (let update = 25; update < 40; update++) {
      await trainer.accumulate(both, update);
      await trainer.update(update, 3e-3);
    }
    expect(await trainer.buffers.read()).toEqual(ended);
    await trainer.dispose();
  });

  it('comes to the same whether states are computed or read from the disk', async () => {
    const file = join(folder.path, 'states.bin');
    const losses: number[] = [];
    for (const limitBytes of [0, 1e6, 1e6]) {
      const store = StateStore.open(file, { limitBytes });
      const trainer = await create(store);
      // Padding counts for nothing and texts do not see each other: they may stand in other company than when their states
      // were kept.
      losses.push((await trainer.accumulate(both, 0)).loss);
      losses.push((await trainer.accumulate(batchOf(['two', two], ['one', one]), 0)).loss);
      losses.push((await trainer.accumulate(packed, 0)).loss);
      await trainer.dispose();
      store.close();
    }
    for (const loss of losses) expect(loss).toBeCloseTo(losses[0]!, 3);
    expect(losses[6]).toBe(losses[3]);
    rmSync(file);
  });
});

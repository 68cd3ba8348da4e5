import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { tiny, writeDecoder } from '../../test/support/tiny-checkpoints.js';
import { drafterVariants, writeMedusa2 } from '../../test/support/tiny-drafters.js';
import { makeTemporaryFolder } from '../../test/support/checkpoint/temporary-folder.js';
import { inspectCheckpoint } from './inspection.js';

const temporary = makeTemporaryFolder();
afterAll(() => {
  temporary.remove();
});

describe.each(drafterVariants.map((variant) => ({ name: variant.name, variant })))(
  '$name beside a target',
  ({ variant }) => {
    it('has no problems beside its own, and is refused beside a wider one', async () => {
      const folder = (name: string): string => mkdtempSync(join(temporary.path, name));
      const drafter = variant.write(folder('drafter'), tiny);
      const target = writeDecoder(folder('target'), tiny);
      const wide = writeDecoder(folder('wide'), { ...tiny, hiddenSize: 2 * tiny.hiddenSize });
      const own = await inspectCheckpoint(drafter, { target });
      expect(own.problems).toEqual([]);
      expect(own.layout).toBe(variant.layout);
      const { kind, problems } = await inspectCheckpoint(drafter, { target: wide });
      // Language models may be of any width.
      expect(problems.length > 0).toBe(kind !== 'pard' && variant.layout !== 'language model');
    });
  },
);

describe('a target with Medusa-2 heads in its shards', () => {
  it('is told as both', async () => {
    const folder = writeMedusa2(join(temporary.path, 'whole'), tiny);
    const { kind, model, drafter, problems } = await inspectCheckpoint(folder);
    expect(problems).toEqual([]);
    expect(kind).toBe('decoder');
    expect(model?.layerCount).toBe(tiny.layerCount);
    expect(drafter).toMatchObject({ heads: 4, hiddenSize: tiny.hiddenSize });
  });

  it('lacks the heads that its config declares', async () => {
    const folder = writeMedusa2(join(temporary.path, 'short'), tiny);
    const path = join(folder, 'config.json');
    const config = JSON.parse(readFileSync(path, 'utf8')) as object;
    writeFileSync(path, JSON.stringify({ ...config, medusa_num_heads: 6 }));
    const { problems } = await inspectCheckpoint(folder);
    expect(problems.map(({ problem }) => problem).join()).toContain('declares 6 heads and holds 4');
  });
});

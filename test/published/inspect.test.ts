/** `inspect` on every published row: the right kind, no problems, and the facts that decide what is computed. */
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import type { Inspection } from '../../src/draft/inspection.js';
import { inspectCheckpoint } from '../../src/draft/inspection.js';
import { publishedDrafters } from './published-drafters.js';
import { eagle3Rows } from './published-eagle3.js';
import type { PublishedFolder } from './published-layouts.js';
import { writePublished } from './published-layouts.js';
import { publishedTargets } from './published-targets.js';

const temporary = makeTemporaryFolder();
afterAll(() => {
  temporary.remove();
});
let count = 0;

function inspect(folder: PublishedFolder): Promise<Inspection> {
  return inspectCheckpoint(writePublished(join(temporary.path, String((count += 1))), folder));
}

describe.each(publishedTargets)('$name', ({ family, facts, folder }) => {
  it('is a target without problems', async () => {
    const { kind, layout, model, problems } = await inspect(folder);
    expect(problems).toEqual([]);
    expect({ kind, layout }).toEqual({ kind: 'decoder', layout: 'language model' });
    expect(model).toMatchObject({
      family,
      layerCount: facts.layers,
      keyValueHeadCount: facts.keyValueHeads,
      headSize: facts.headSize,
      normEpsilon: facts.normEpsilon,
      rotaryBase: facts.rotary.base,
      slidingWindow: facts.window,
    });
    expect(model!.experts?.perToken).toBe(facts.experts?.perToken);
    expect(model!.experts?.normalizesWeights).toBe(facts.experts?.normalized);
    expect(model!.rotaryScaling.kind).toBe(facts.rotary.scaling?.kind ?? 'none');
  });
});

describe.each(publishedDrafters)('$name', (row) => {
  it('is a drafter without problems', async () => {
    const { kind, layout, problems } = await inspect(row.folder);
    expect(problems).toEqual([]);
    expect({ kind, layout }).toEqual({ kind: row.kind, layout: row.layout });
  });
});

describe.each(eagle3Rows)('$name', ({ folder, facts }) => {
  it('says what will be run', async () => {
    const { drafter } = await inspect(folder);
    expect(drafter?.rotary?.base).toBe(facts.rotary.base);
    expect(drafter?.expects.taps).toBe(facts.taps.length);
    const traits = drafter?.traits ?? [];
    expect(traits.includes('norm_before_residual')).toBe(facts.normBeforeResidual);
    expect(traits.includes('norm_before_fc')).toBe(facts.fusionNorm === 'joined');
    expect(traits.includes('fc_norm')).toBe(facts.fusionNorm === 'each');
    expect(traits.includes('norm_output')).toBe(facts.feedsNormed);
    expect(traits.includes('embeddings of its own')).toBe('embed_tokens.weight' in folder.tensors);
  });
});

describe('heads of Medusa', () => {
  it('are counted in the file, whatever config.json says', async () => {
    const { folder } = publishedDrafters.find(({ kind }) => kind === 'medusa')!;
    const { drafter } = await inspect(folder);
    expect(folder.config.medusa_num_heads).toBe(2);
    expect(drafter?.heads).toBe(5);
  });
});

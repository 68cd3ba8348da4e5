/** An audit of a drafter that has no gradient: refused with what to do instead, and what to do instead works. */
import { basename } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { createRequest } from '../../src/audit/audit-request.js';
import { countDraftsAlong } from '../../src/audit/search/held-answer.js';
import { resultOf, TinyAudits } from '../support/tiny-audit.js';
import { shallow } from '../support/tiny-checkpoints.js';

const audits = new TinyAudits(shallow);
afterAll(() => audits.dispose());
const texts = ['qrstuvwx', 'mnopmnop'];
const random = { settings: { search: 'random' } } as const;

describe('an audit of ngram', () => {
  it('is refused where the search follows gradients, with the two ways out', async () => {
    await expect(createRequest(audits.plan(['ngram'], texts))).rejects.toMatchObject({
      code: 'usage',
      message: 'The drafter ngram:1,4 has no weights, and so no gradient that a search could follow.',
      hint: expect.stringMatching(/--search random.*--suffix/) as string,
    });
  });

  it('searches by random changes, beside a drafter that has a gradient', async () => {
    const medusa = audits.writeDrafter('Medusa, torch file');
    const plan = audits.plan(['ngram:1,2', medusa], texts, {
      ...{ transfer: true, universal: true },
      settings: { ...random.settings, steps: 12, window: 20 },
    });
    const folder = audits.freshFolder();
    const result = await audits.complete(plan, folder);
    expect(result.setup.drafters[0]).toMatchObject({
      ...{ id: 'ngram', name: 'ngram:1,2', system: 'ngram', policy: 'chain:3', parameterCount: 0 },
    });
    const objectives = result.drafters.map(({ prompts }) =>
      prompts.flatMap(({ traces }) => traces.map(({ arm, objective }) => `${arm} ${objective}`)),
    );
    const each = (objective: string): string[] => [`attack ${objective}`, 'undirected blind'];
    expect(objectives).toEqual([
      [...each('accepted-length'), ...each('accepted-length')],
      [...each('margin'), ...each('margin')],
    ]);
    for (const { prompts } of result.drafters) {
      for (const { arms, traces } of prompts) {
        const lengthOf = (name: string): number =>
          arms.find(({ arm }) => arm === name)!.sameAnswer.meanAcceptedLength;
        expect(lengthOf('attack')).toBeLessThanOrEqual(lengthOf('clean'));
        for (const { steps } of traces)
          for (const { cosineBefore, cosineAfter } of steps)
            expect([cosineBefore, cosineAfter]).toEqual([0, 0]);
      }
    }
    // The lookup can be led astray: on one of the prompts at least, a suffix costs it tokens.
    expect(result.drafters[0]!.summary.drop.estimate).toBeGreaterThan(0);
    expect(result.transfer?.drafters).toEqual(['ngram', basename(medusa)]);
    expect(result.universal.map(({ drafter }) => drafter)).toContain('ngram');
    expect(resultOf(await audits.resume(folder))).toEqual(result);
  });

  it('measures given suffixes as decoding along the answer does', async () => {
    const suffixes = [{ text: 'abcab', place: '--suffix' }];
    const result = await audits.complete(audits.plan(['ngram'], texts, { suffixes }));
    const { drafter } = await audits.load('ngram');
    const [first] = result.drafters[0]!.prompts;
    const given = first!.arms.find(({ arm }) => arm === 'given')!;
    const ids = (text: string): number[] => Array.from(text, (letter) => letter.charCodeAt(0) - 97);
    const { steps, accepted } = await countDraftsAlong(
      drafter,
      ids(`${texts[0]!}abcab`),
      first!.arms[0]!.answer.tokenIds,
      3,
    );
    expect(given.sameAnswer).toMatchObject({ steps, accepted });
  });

  it('has no control searches, which follow gradients', async () => {
    const settings = { ...random.settings, controlSearches: true };
    await expect(createRequest(audits.plan(['ngram'], texts, { settings }))).rejects.toThrow(
      'The control searches follow gradients',
    );
    const plan = { ...audits.plan(['ngram'], texts, random), preset: 'thorough' };
    expect((await createRequest(plan)).settings).toMatchObject({ controlSearches: false, search: 'random' });
  });

  it('is named apart from a second one, and refused twice', async () => {
    const named = await createRequest(audits.plan(['ngram', 'ngram:2,3'], texts, random));
    expect(named.drafters.map(({ id, folder }) => [id, folder])).toEqual([
      ['ngram', 'ngram:1,4'],
      ['ngram-2', 'ngram:2,3'],
    ]);
    await expect(createRequest(audits.plan(['ngram', 'ngram:1,4'], texts, random))).rejects.toThrow(
      'The drafter ngram:1,4 was given twice.',
    );
  });
});

/** A whole audit with everything that it can measure, twice: the same seed gives the same result. */
import { afterAll, expect, it } from 'vitest';
import { TinyAudits } from '../support/tiny-audit.js';

const audits = new TinyAudits();
afterAll(() => audits.dispose());

it('the same seed gives the same result, control searches, transfer and universal suffix included', async () => {
  const drafters = ['draft model', 'EAGLE-3 with d2t'].map((name) => audits.writeDrafter(name));
  const plan = audits.plan(drafters, ['abcdefgh', 'hgfedcba{suffix}ij'], {
    ...{ transfer: true, universal: true },
    settings: { controlSearches: true },
  });
  const result = await audits.complete(plan);
  expect(await audits.complete(plan)).toEqual(result);
});

import { expect, it } from 'vitest';
import { MistletoeError } from '../core/errors.js';
import { explainResumption } from './training-run.js';

it.each([
  ['of an audit', 'Make room on the disk, then resume with: mistletoe audit --resume runs/hard/audits/fresh'],
  [
    'of a round',
    'Make room on the disk, then resume with: mistletoe harden --resume runs/hard/random/round-2',
  ],
  ['of its training', 'Make room on the disk, then resume with: mistletoe train --resume "runs/hard/a b"'],
])('a failure %s tells to go on with the whole run', (_, hint) => {
  const cause = Object.assign(new Error('no space'), { code: 'ENOSPC' });
  const told = explainResumption(
    'runs/hard',
    'harden',
    new MistletoeError('runtime', 'It failed.', { hint, cause }),
  );
  expect(told).toMatchObject({
    ...{ code: 'runtime', message: 'It failed.', cause },
    hint: 'Make room on the disk, then resume with: mistletoe harden --resume runs/hard',
  });
});

it('what says nothing of resuming stays as it is', () => {
  const refusal = new MistletoeError('usage', 'No.', { hint: 'Give another file.' });
  expect(explainResumption('runs/hard', 'harden', refusal)).toBe(refusal);
  const bug = new TypeError('a bug');
  expect(explainResumption('runs/hard', 'harden', bug)).toBe(bug);
});

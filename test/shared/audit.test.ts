/** The audit does what it is for: on the bundled target, one prompt, a short search. */
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { createRequest } from '../../src/audit/audit-request.js';
import { startAudit } from '../../src/audit/run-audit.js';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { loadPrompts } from '../../src/text/prompts/prompt-set.js';
import { hasShared, sharedFolder } from '../support/shared.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

describe.skipIf(!hasShared)('an audit of the bundled speculative sampling', () => {
  it('finds a suffix that loses half of the accepted length along the same answer, and chance does not', async () => {
    const [prompt] = await loadPrompts('humaneval', { folder: join(sharedFolder, 'data') });
    const request = await createRequest({
      prompts: [prompt!],
      drafters: ['sps'],
      preset: 'quick',
      settings: { keep: 'identical', steps: 12, starts: 4 },
    });
    const outcome = await startAudit(join(temporary.path, 'run'), request);
    if (outcome.status !== 'complete') throw new Error('The audit was interrupted.');
    const { skipped, arms } = outcome.result.drafters[0]!.prompts[0]!;
    expect(skipped).toBeNull();
    const row = (name: string) => arms.find(({ arm }) => arm === name)!;
    const lengthOf = (name: string): number => row(name).sameAnswer.meanAcceptedLength;
    expect(lengthOf('attack')).toBeLessThan(0.5 * lengthOf('clean'));
    for (const control of ['random', 'fluent', 'undirected'])
      expect(lengthOf(control)).toBeGreaterThan(0.8 * lengthOf('clean'));
    expect(row('attack').preservation).toMatchObject({ kept: 'identical' });
    expect(row('attack').preservation.divergence).toBeLessThanOrEqual(0.1);
    expect(row('attack').answer.tokenIds).toEqual(row('clean').answer.tokenIds);
    expect(row('clean-again').answer).toEqual(row('clean').answer);
  });
});

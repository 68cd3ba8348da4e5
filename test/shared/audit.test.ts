/** The audit does what it is for: on the bundled target, one prompt, a short search. */
import { join, resolve } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { createRequest } from '../../src/audit/create-request.js';
import { startAudit } from '../../src/audit/run-audit.js';
import { makeTemporaryFolder } from '../../src/checkpoint/testing/temporary-folder.js';
import { loadPrompts } from '../../src/text/prompt-set.js';
import { hasShared, sharedFolder } from '../support/shared.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

describe.skipIf(!hasShared)('an audit of the bundled speculative sampling', () => {
  it('finds a suffix that shortens the accepted length within the bound', async () => {
    const prompts = await loadPrompts('gsm8k', { folder: resolve(sharedFolder, 'data') });
    const request = await createRequest({
      prompts: prompts.slice(0, 1),
      drafters: ['sps'],
      preset: 'quick',
      settings: { steps: 12, controlSearches: false },
    });
    const outcome = await startAudit(join(temporary.path, 'run'), request);
    if (outcome.status !== 'complete') throw new Error('The audit was interrupted.');
    const [prompt] = outcome.result.drafters[0]!.prompts;
    expect(prompt!.skipped).toBeNull();
    const row = (arm: string) => prompt!.arms.find((entry) => entry.arm === arm)!;
    const attacked = row('attack').acceptance.meanAcceptedLength;
    expect(attacked).toBeLessThan(row('clean').acceptance.meanAcceptedLength);
    expect(attacked).toBeLessThan(row('random').acceptance.meanAcceptedLength);
    expect(row('attack').preservation.divergence).toBeLessThanOrEqual(0.1);
    expect(row('clean-again').answer).toEqual(row('clean').answer);
  });
});

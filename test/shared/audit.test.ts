/** The audit does what it is for: on the bundled target, one prompt, a short search. */
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { createRequest } from '../../src/audit/create-request.js';
import { startAudit } from '../../src/audit/run-audit.js';
import { makeTemporaryFolder } from '../../src/checkpoint/testing/temporary-folder.js';
import { inlinePrompt } from '../../src/text/prompt-set.js';
import { hasShared, readGoldenPrompts } from '../support/shared.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

describe.skipIf(!hasShared)('an audit of the bundled speculative sampling', () => {
  it('finds a suffix that shortens the accepted length within the bound', async () => {
    const text = readGoldenPrompts()[0]!.prompt;
    const request = await createRequest({
      prompts: [inlinePrompt(text)],
      drafters: ['sps'],
      preset: 'standard',
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

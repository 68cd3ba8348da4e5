import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { presets } from '../../audit/settings.js';
import type { Target } from '../../decode/target.js';
import { encodePrompt } from '../../decode/target.js';
import { inlinePrompt } from '../../text/prompts/prompt-set.js';
import { createRandom } from '../../core/random.js';
import { rewordQuestion } from './paraphrase.js';
import { ParaphraseHunt } from './paraphrase-hunt.js';
import type { HuntOptions } from './suffix-hunt.js';
import { LetterTarget } from '../../../test/support/train/letter-target.js';

const letters = new LetterTarget();
let target: Target;
beforeAll(async () => {
  target = await letters.open();
});
afterAll(async () => {
  await letters.dispose();
});

const options = (changes: Partial<HuntOptions> = {}): HuntOptions => ({
  settings: { ...presets.quick, chat: true, maxNewTokens: 4 },
  ...{ seed: 1, name: 'round 0 p1', count: 3, source: 'paraphrase', ...changes },
});
const hunt = (text: string, changes: Partial<HuntOptions> = {}) =>
  new ParaphraseHunt(target).hunt(inlinePrompt(text), options(changes));

describe('reworded questions', () => {
  it('are asked as the target is asked, and nothing is measured', async () => {
    const { skipped, promptIds, lengths } = await hunt('abc');
    expect([skipped, lengths]).toEqual([null, [null, null, null]]);
    const texts = rewordQuestion('abc', 3, createRandom(1, 'hunt', 'paraphrase', 'round 0 p1'));
    expect(promptIds).toEqual(await Promise.all(texts.map((text) => encodePrompt(target, text))));
  });

  it('are the same for the same name, and others for another', async () => {
    const first = await hunt('abc');
    expect(await hunt('abc')).toEqual(first);
    expect(await hunt('abc', { name: 'round 1 p1' })).not.toEqual(first);
  });

  it('are sent as they are where audits ask without the chat template', async () => {
    const settings = { ...options().settings, chat: false };
    const { promptIds } = await hunt('abc', { settings, count: 1 });
    const [text] = rewordQuestion('abc', 1, createRandom(1, 'hunt', 'paraphrase', 'round 0 p1'));
    expect(promptIds).toEqual([await encodePrompt(target, text!, { chat: false })]);
  });

  it('are passed over with the reason where no answer has room', async () => {
    const { skipped, promptIds, lengths } = await hunt('abcd'.repeat(30));
    expect(skipped).toMatch(/tokens|room/);
    expect([promptIds, lengths]).toEqual([[], []]);
    const settings = { ...options().settings, maxNewTokens: target.model.configuration.contextLength };
    expect((await hunt('abc', { settings })).skipped).toMatch(
      /^There is no room for an answer: \d+ positions/,
    );
  });

  it('are not handed on where the round was interrupted', async () => {
    const abort = new AbortController();
    abort.abort();
    await expect(hunt('abc', { signal: abort.signal })).rejects.toBe(abort.signal.reason);
  });
});

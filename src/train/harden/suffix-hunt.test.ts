import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AuditSettings } from '../../audit/settings.js';
import { presets } from '../../audit/settings.js';
import { inlinePrompt } from '../../text/prompts/prompt-set.js';
import type { LoadedPair } from '../../../test/support/tiny-audit.js';
import { TinyAudits, tinySettings } from '../../../test/support/tiny-audit.js';
import type { HuntOptions } from './suffix-hunt.js';
import { SuffixHunt } from './suffix-hunt.js';

const models = new TinyAudits();
const settings: AuditSettings = { ...presets.quick, ...tinySettings };
const prompt = inlinePrompt('abcdefgh');
let pair: LoadedPair;
let hunt: SuffixHunt;

beforeAll(async () => {
  pair = await models.load(models.writeDrafter('draft model'));
  hunt = new SuffixHunt(pair.target, pair.drafter, 3);
});
afterAll(async () => {
  await hunt.dispose();
  await models.dispose();
});

const options = (changes: Partial<HuntOptions> = {}): HuntOptions => ({
  ...{ settings, seed: 1, name: 'round 0 p1', count: 2, source: 'searched', ...changes },
});

describe('searched suffixes', () => {
  it('stand behind the prompt, as long as asked for, with the length found', async () => {
    const { skipped, texts } = await hunt.hunt(prompt, options());
    const promptIds = texts.map((text) => text.promptIds);
    const lengths = texts.map(({ length }) => length);
    expect(skipped).toBeNull();
    expect(promptIds.length).toBeGreaterThan(0);
    expect(promptIds.length).toBeLessThanOrEqual(2);
    const plain = await pair.target.tokenizer.encode(prompt.text);
    for (const ids of promptIds) {
      expect(ids).toHaveLength(plain.length + settings.suffixLength);
      expect(ids.slice(0, plain.length)).toEqual(plain);
    }
    for (const length of lengths) expect(length).toBeGreaterThanOrEqual(1);
    // The first is the one that is accepted least.
    expect(lengths).toEqual([...lengths].sort((left, right) => left! - right!));
  });

  it('are the same for the same name, whatever was searched before', async () => {
    const [first, other, again] = [
      await hunt.hunt(prompt, options()),
      await hunt.hunt(prompt, options({ name: 'round 1 p1' })),
      await hunt.hunt(prompt, options()),
    ];
    expect(again).toEqual(first);
    expect(other.texts).not.toEqual(first.texts);
  });

  it('may have other lengths and objectives from prompt to prompt', async () => {
    const changed = { ...settings, suffixLength: 3, objective: 'kl' } as const;
    const { texts } = await hunt.hunt(prompt, options({ settings: changed }));
    const plain = await pair.target.tokenizer.encode(prompt.text);
    expect(texts[0]!.promptIds).toHaveLength(plain.length + 3);
  });

  it('are not handed on where the search was interrupted', async () => {
    const abort = new AbortController();
    abort.abort();
    await expect(hunt.hunt(prompt, options({ signal: abort.signal }))).rejects.toBe(abort.signal.reason);
  });
});

describe('random suffixes', () => {
  it('are as many and as long, and nothing is measured', async () => {
    const { texts } = await hunt.hunt(prompt, options({ source: 'random', count: 3 }));
    expect(texts.map(({ length }) => length)).toEqual([null, null, null]);
    expect(new Set(texts.map(({ promptIds }) => String(promptIds))).size).toBe(3);
    const again = await hunt.hunt(prompt, options({ source: 'random', count: 3 }));
    expect(again.texts).toEqual(texts);
  });
});

describe('a prompt that cannot be attacked', () => {
  it.each(['searched', 'random'] as const)('is passed over with its reason: %s', async (source) => {
    const long = inlinePrompt('abcd'.repeat(12));
    const { skipped, texts } = await hunt.hunt(long, options({ source }));
    expect(skipped).toMatch(/^There is no room for the suffix/);
    expect(texts).toEqual([]);
  });
});

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inlinePrompt } from '../../text/prompts/prompt-set.js';
import { TinyAudits } from '../../../test/support/tiny-audit.js';
import type { HardenPlan } from './harden-request.js';
import { createHardenRequest, hardenRequestSchema } from './harden-request.js';
import { auditSettings } from './harden-run.js';
import { letterTemplate } from '../../../test/support/train/letter-target.js';

const models = new TinyAudits();
const data = `${models.freshFolder()}.jsonl`;
let drafter: string;
beforeAll(() => {
  const lines = [
    { prompt: 'abc' },
    {
      id: 'second',
      messages: [
        { role: 'user', content: 'What is\n it?' },
        { role: 'assistant', content: 'def' },
      ],
    },
    { turns: ['ghi', 'Caf\u00e9'] },
  ];
  writeFileSync(data, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  drafter = models.writeDrafter('draft model');
});
afterAll(async () => {
  await models.dispose();
});

const ask = (changes: Partial<HardenPlan> = {}) =>
  createHardenRequest({
    ...{ target: models.targetFolder, drafter, data, prompts: [inlinePrompt('xyz')], device: 'cpu' },
    ...{ cacheFolder: models.cacheFolder, ...changes },
  });

describe('a request', () => {
  it('is whole, can be written and read', async () => {
    const request = await ask({ hardening: { stepsPerRound: 40, seed: 3 }, audits: ['stronger'] });
    expect(hardenRequestSchema.parse(JSON.parse(JSON.stringify(request)))).toEqual(request);
    expect(request.training).toMatchObject({ steps: 40, warmupSteps: 4, rate: 2e-4, seed: 3 });
    expect(request.audit).toMatchObject({ names: ['fresh', 'stronger'], preset: 'standard' });
    expect(request.audit.seed).not.toBe(3);
    expect(request.baselines).toEqual(['random']);
    expect((await ask({ baselines: ['random'] })).baselines).toEqual(['random']);
    expect((await ask({ baselines: [] })).baselines).toEqual([]);
  });

  it('asks through the chat template where the target has one, as training does', async () => {
    expect((await ask()).audit.settings.chat).toBe(false);
    const other = new TinyAudits();
    try {
      writeFileSync(join(other.targetFolder, 'chat_template.jinja'), letterTemplate);
      expect((await ask({ target: other.targetFolder })).audit.settings.chat).toBe(true);
      const pinned = await ask({ chatTemplate: join(other.targetFolder, 'chat_template.jinja') });
      expect([pinned.audit.settings.chat, pinned.chatTemplate?.source]).toEqual([true, letterTemplate]);
    } finally {
      await other.dispose();
    }
  });

  it('has audits that differ in what they are for', async () => {
    const request = await ask({ preset: 'quick', audits: ['fresh', 'other-objective', 'stronger'] });
    const of = (name: (typeof request.audit.names)[number]) => {
      const { objective, steps } = auditSettings(request, name);
      return [objective, steps];
    };
    expect(of('fresh')).toEqual(['margin', 24]);
    expect(of('other-objective')).toEqual(['total-variation', 24]);
    expect(of('stronger')).toEqual(['margin', 240]);
  });
});

describe('what training has seen', () => {
  it.each([
    ['a first question', 'abc', /prompt \(as line-1\)/],
    ['the same with other blanks', ' What is it?\n', /prompt \(as second\)/],
    ['a later question, composed otherwise', 'Cafe\u0301', /prompt \(as line-3\)/],
  ])('is refused as a prompt of the audit: %s', async (_, text, sentence) => {
    await expect(ask({ prompts: [inlinePrompt(text)] })).rejects.toThrow(sentence);
  });

  it('is not what an assistant said', async () => {
    await expect(ask({ prompts: [inlinePrompt('def')] })).resolves.toBeDefined();
  });

  it('is named for a few of many prompts', async () => {
    const prompts = Array.from({ length: 5 }, (_, index) => ({ ...inlinePrompt('abc'), id: `p${index}` }));
    await expect(ask({ prompts })).rejects.toThrow(
      /^5 prompts of the audit .* p2 \(as line-1\) and 2 more\.$/,
    );
  });

  it('is refused as a suffix length', async () => {
    await expect(ask({ hardening: { suffixLengths: [12, 20] } })).rejects.toThrow(
      /suffixes of 20 tokens, a length that training searches too \(12, 20\)/,
    );
  });
});

describe('refusals', () => {
  it.each([
    [{ prompts: [] }, /no prompt to audit on/],
    [{ preset: 'enormous' }, /preset "enormous" is not known/],
    [{ training: { rate: -1 } }, /"rate" is -1/],
    [{ audit: { epsilon: 0 } }, /"epsilon" is 0/],
  ])('%j', async (changes, sentence) => {
    await expect(ask(changes)).rejects.toThrow(sentence);
  });

  it('drafts that are deeper than the heads', async () => {
    const medusa = models.writeDrafter('Medusa, torch file');
    await expect(ask({ drafter: medusa, training: { chain: 30 } })).rejects.toThrow(/drafts of 30 tokens/);
  });
});

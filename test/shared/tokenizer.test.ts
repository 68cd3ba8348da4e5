import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { encodeChat, requireChatTemplate } from '../../src/text/chat-template.js';
import { loadPrompts, promptSetFiles } from '../../src/text/prompt-set.js';
import { createTextStream } from '../../src/text/text-stream.js';
import { loadTokenizer } from '../../src/text/tokenizer.js';

const root = resolve(import.meta.dirname, '../..');
const target = join(root, 'models/reference/target');
const golden = join(root, '../shared/golden/reference.json');
const data = join(root, '../shared/data');

interface GoldenCase {
  readonly prompt: string;
  readonly ids: readonly number[];
  readonly greedy_ids: readonly number[];
  readonly greedy_text: string;
}

if (!existsSync(golden)) console.info(`skipped: ${golden} is not there`);
describe.skipIf(!existsSync(golden))('the golden prompts', () => {
  const cases = (): GoldenCase[] =>
    Object.values(JSON.parse(readFileSync(golden, 'utf8')) as Record<string, GoldenCase>);

  it('encode to the golden ids, as text and as chat', async () => {
    const tokenizer = await loadTokenizer(target);
    const template = await requireChatTemplate(target);
    expect(cases().length).toBeGreaterThan(0);
    for (const { prompt, ids } of cases()) {
      expect(await tokenizer.encode(`USER: ${prompt} ASSISTANT:`)).toEqual(ids);
      expect(await encodeChat(tokenizer, template, [{ role: 'user', content: prompt }])).toEqual(ids);
    }
  });

  it('have answers that decode and stream to the golden text', async () => {
    const tokenizer = await loadTokenizer(target);
    for (const { ids, greedy_ids: answer, greedy_text: text } of cases()) {
      expect(tokenizer.decode(answer)).toBe(text);
      const stream = createTextStream(tokenizer, ids);
      const streamed = answer.map((id) => stream.push(id)).join('') + stream.finish();
      expect(streamed.replace(/^ /, '')).toBe(text);
    }
  });
});

if (!existsSync(data)) console.info(`skipped: ${data} is not there`);
describe.skipIf(!existsSync(data))('the prompt sets', () => {
  it.each(Object.keys(promptSetFiles))('%s encodes and decodes back', async (name) => {
    const tokenizer = await loadTokenizer(target);
    const prompts = await loadPrompts(name, { folder: data });
    expect(prompts).toHaveLength(80);
    for (const text of prompts.flatMap(({ turns }) => turns)) {
      expect(tokenizer.decode(await tokenizer.encode(text))).toBe(text);
    }
  });
});

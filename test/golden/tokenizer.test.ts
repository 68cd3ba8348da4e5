import { describe, expect, it } from 'vitest';
import { encodeChat } from '../support/text/encode-chat.js';
import { requireChatTemplate } from '../../src/text/template/chat-template.js';
import { createTextStream } from '../../src/text/text-stream.js';
import { loadTokenizer } from '../../src/text/tokenizer/tokenizer.js';
import { readGoldenPrompts } from '../support/golden.js';
import { referenceTarget } from '../support/model-folders.js';

const golden = readGoldenPrompts();

describe('the golden prompts', () => {
  it('encode to the golden ids, as text and as chat', async () => {
    const tokenizer = await loadTokenizer(referenceTarget);
    const template = await requireChatTemplate(referenceTarget);
    expect(golden.length).toBeGreaterThan(0);
    for (const { prompt, ids } of golden) {
      expect(await tokenizer.encode(`USER: ${prompt} ASSISTANT:`)).toEqual(ids);
      expect(await encodeChat(tokenizer, template, [{ role: 'user', content: prompt }])).toEqual(ids);
    }
  });

  it('have answers that decode and stream to the golden text', async () => {
    const tokenizer = await loadTokenizer(referenceTarget);
    for (const { ids, greedy_ids: answer, greedy_text: text } of golden) {
      expect(tokenizer.decode(answer)).toBe(text);
      const stream = createTextStream(tokenizer, ids);
      const streamed = answer.map((id) => stream.push(id)).join('') + stream.finish();
      expect(streamed.replace(/^ /, '')).toBe(text);
    }
  });
});

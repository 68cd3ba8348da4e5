import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { renderChat, requireChatTemplate, type ChatMessage } from '../template/chat-template.js';
import { renderChatWithSuffix, splitAroundSuffix, splitChatAroundSuffix } from './suffix-list.js';
import { bundledTarget, writeFolder } from '../../../test/support/text/sample-folders.js';

describe('the place of a suffix', () => {
  it('is behind the text of the user, or at the placeholder', async () => {
    const template = await requireChatTemplate(bundledTarget);
    expect(splitChatAroundSuffix(template, 'Why?')).toEqual({
      before: '<s>USER: Why?',
      after: ' ASSISTANT:',
    });
    expect(splitChatAroundSuffix(template, 'a {suffix} b')).toEqual({
      before: '<s>USER: a ',
      after: ' b ASSISTANT:',
    });
    expect(renderChatWithSuffix(template, 'Why?', ' x y')).toBe('<s>USER: Why? x y ASSISTANT:');
    expect(splitAroundSuffix('raw text')).toEqual({ before: 'raw text', after: '' });
  });

  it('is in the last message of the user', async () => {
    const template = await requireChatTemplate(bundledTarget);
    const messages: ChatMessage[] = [
      { role: 'user', content: 'One' },
      { role: 'assistant', content: 'Two' },
      { role: 'user', content: 'Three' },
    ];
    expect(splitChatAroundSuffix(template, messages)).toEqual({
      before: '<s>USER: One ASSISTANT: Two</s>USER: Three',
      after: ' ASSISTANT:',
    });
    expect(() => renderChatWithSuffix(template, [], 'x')).toThrow(/no user message/);
  });

  it('puts the two sides around any suffix, and nothing around the empty one', async () => {
    const template = await requireChatTemplate(bundledTarget);
    fc.assert(
      fc.property(fc.string(), fc.string(), (text, suffix) => {
        const { before, after } = splitChatAroundSuffix(template, text);
        expect(before + suffix + after).toBe(renderChatWithSuffix(template, text, suffix));
        expect(before + after).toBe(renderChat(template, [{ role: 'user', content: text }]));
      }),
    );
  });

  it('survives a text that looks like the marker', async () => {
    const template = await requireChatTemplate(bundledTarget);
    expect(splitChatAroundSuffix(template, 'SuffixGoesHere').before).toBe('<s>USER: SuffixGoesHere');
  });

  it('refuses two placeholders, and templates that repeat or drop the text', async () => {
    expect(() => splitAroundSuffix('{suffix} and {suffix}')).toThrow(/2 times/);
    const twice = writeFolder({
      'chat_template.jinja': '{{ messages[0].content }}|{{ messages[0].content }}',
    });
    const never = writeFolder({ 'chat_template.jinja': 'hello' });
    const repeating = await requireChatTemplate(twice);
    const dropping = await requireChatTemplate(never);
    expect(() => splitChatAroundSuffix(repeating, 'x')).toThrow(/writes the user's text 2 times/);
    expect(() => splitChatAroundSuffix(dropping, 'x')).toThrow(/writes the user's text 0 times/);
  });
});

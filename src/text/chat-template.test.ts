import { describe, expect, it } from 'vitest';
import {
  encodeChat,
  loadChatTemplate,
  renderChat,
  requireChatTemplate,
  type ChatMessage,
} from './chat-template.js';
import { bundledTarget, byteLevelTokenizer, writeFolder } from './testing/sample-folders.js';
import { loadTokenizer } from './tokenizer.js';

const user = (content: string): ChatMessage => ({ role: 'user', content });
const config = (more: object = {}): object => ({ bos_token: '<s>', eos_token: '</s>', ...more });
const plain = "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}";

describe('rendering', () => {
  it('writes the bundled format', async () => {
    const template = await requireChatTemplate(bundledTarget);
    const messages: ChatMessage[] = [user('Hi'), { role: 'assistant', content: 'Hello.' }, user('And?')];
    expect(renderChat(template, messages)).toBe('USER: Hi ASSISTANT: Hello.</s>USER: And? ASSISTANT:');
    expect(renderChat(template, [user('Hi')], { addGenerationPrompt: false })).toBe('USER: Hi ');
  });

  it('leaves braces in the text of the user alone', async () => {
    const template = await requireChatTemplate(bundledTarget);
    expect(renderChat(template, [user('{{ 1 + 1 }} {% if %}')])).toBe(
      'USER: {{ 1 + 1 }} {% if %} ASSISTANT:',
    );
  });

  it('turns the objection of a template into one sentence', async () => {
    const folder = writeFolder({ 'chat_template.jinja': "{{ raise_exception('roles must alternate') }}" });
    const template = await requireChatTemplate(folder);
    expect(() => renderChat(template, [user('x')])).toThrow(
      /refused the conversation: .*roles must alternate/,
    );
  });
});

describe('loading', () => {
  it('prefers chat_template.jinja, then the text or the default in tokenizer_config.json', async () => {
    const listed = [
      { name: 'tool_use', template: 'tool' },
      { name: 'default', template: plain },
    ];
    const folders = [
      writeFolder({
        'chat_template.jinja': plain,
        'tokenizer_config.json': config({ chat_template: 'other' }),
      }),
      writeFolder({ 'tokenizer_config.json': config({ chat_template: plain }) }),
      writeFolder({ 'tokenizer_config.json': config({ chat_template: listed }) }),
    ];
    for (const folder of folders) {
      expect(renderChat(await requireChatTemplate(folder), [user('x')])).toBe('[user] x\n');
    }
  });

  it('is undefined where there is none, and an error where one is needed', async () => {
    const folder = writeFolder({ 'tokenizer_config.json': config({ chat_template: null }) });
    expect(await loadChatTemplate(folder)).toBeUndefined();
    await expect(requireChatTemplate(folder)).rejects.toMatchObject({
      code: 'text',
      message: expect.stringContaining('has no chat template') as string,
      hint: expect.stringMatching(/--raw.*chat_template\.jinja/) as string,
    });
  });

  it('refuses a list without default and a template that does not parse', async () => {
    const list = [{ name: 'rag', template: 'x' }];
    const listed = writeFolder({ 'tokenizer_config.json': config({ chat_template: list }) });
    await expect(loadChatTemplate(listed)).rejects.toThrow(/none is named default \(found: rag\)/);
    const broken = writeFolder({ 'chat_template.jinja': '{% for m in %}' });
    await expect(loadChatTemplate(broken)).rejects.toThrow(/chat_template\.jinja cannot be parsed/);
  });
});

describe('encodeChat', () => {
  it.each([
    ['the template writes it', '{{ bos_token }}' + plain],
    ['the tokenizer adds it', plain],
  ])('puts the beginning of sequence once when %s', async (_, source) => {
    const folder = writeFolder({
      'tokenizer.json': byteLevelTokenizer(),
      'tokenizer_config.json': config({ chat_template: source }),
    });
    const tokenizer = await loadTokenizer(folder);
    const ids = await encodeChat(tokenizer, await requireChatTemplate(folder), [user('hi')]);
    expect(ids.filter((id) => id === tokenizer.bosId)).toHaveLength(1);
    expect(tokenizer.decode(ids, { skipSpecialTokens: false })).toBe('<s>[user] hi\n');
  });

  it('does so when tokenizer_config.json does not name the token', async () => {
    const files = { 'tokenizer.json': byteLevelTokenizer(), 'chat_template.jinja': '<s>' + plain };
    const folder = writeFolder(files);
    const tokenizer = await loadTokenizer(folder);
    const ids = await encodeChat(tokenizer, await requireChatTemplate(folder), [user('hi')]);
    expect(tokenizer.decode(ids, { skipSpecialTokens: false })).toBe('<s>[user] hi\n');
  });
});

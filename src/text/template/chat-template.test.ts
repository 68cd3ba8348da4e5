import { describe, expect, it, vi } from 'vitest';
import { encodeChat } from '../../../test/support/text/encode-chat.js';
import {
  encodeRaw,
  loadChatTemplate,
  renderChat,
  requireChatTemplate,
  type ChatMessage,
} from './chat-template.js';
import { bundledTarget, byteLevelTokenizer, writeFolder } from '../../../test/support/text/sample-folders.js';
import { loadTokenizer } from '../tokenizer/tokenizer.js';

const user = (content: string): ChatMessage => ({ role: 'user', content });
const config = (more: object = {}): object => ({ bos_token: '<s>', eos_token: '</s>', ...more });
const plain = "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}";

describe('rendering', () => {
  it('writes the bundled format', async () => {
    const template = await requireChatTemplate(bundledTarget);
    const messages: ChatMessage[] = [user('Hi'), { role: 'assistant', content: 'Hello.' }, user('And?')];
    expect(renderChat(template, messages)).toBe('<s>USER: Hi ASSISTANT: Hello.</s>USER: And? ASSISTANT:');
    expect(renderChat(template, [user('Hi')], false)).toBe('<s>USER: Hi ');
  });

  it('leaves braces in the text of the user alone', async () => {
    const template = await requireChatTemplate(bundledTarget);
    expect(renderChat(template, [user('{{ 1 + 1 }} {% if %}')])).toBe(
      '<s>USER: {{ 1 + 1 }} {% if %} ASSISTANT:',
    );
  });

  it('passes the name of a speaker on', async () => {
    const source = "{% for m in messages %}{{ m['name'] if m['name'] is defined else '-' }} {% endfor %}";
    const template = await requireChatTemplate(writeFolder({ 'chat_template.jinja': source }));
    expect(renderChat(template, [{ ...user('x'), name: 'Eve' }, user('y')])).toBe('Eve - ');
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

describe('the date', () => {
  const source = "{{ strftime_now('%d %b %Y') }}";

  it('is told to templates that ask, and stands still', async () => {
    const folder = writeFolder({ 'chat_template.jinja': source });
    const template = await requireChatTemplate(folder, { date: '2024-07-06' });
    expect(template.asksForDate).toBe(true);
    expect(renderChat(template, [user('x')])).toBe('06 Jul 2024');
    expect((await requireChatTemplate(bundledTarget)).asksForDate).toBe(false);
  });

  it('is the day of loading by default', async () => {
    vi.useFakeTimers({ now: new Date(2031, 11, 31, 23, 59), toFake: ['Date'] });
    try {
      const template = await requireChatTemplate(writeFolder({ 'chat_template.jinja': source }));
      vi.setSystemTime(new Date(2032, 0, 1));
      expect(renderChat(template, [user('x')])).toBe('31 Dec 2031');
    } finally {
      vi.useRealTimers();
    }
  });

  it('refuses the time of day, and a date that is none', async () => {
    const folder = writeFolder({ 'chat_template.jinja': "{{ strftime_now('%H:%M') }}" });
    const template = await requireChatTemplate(folder);
    expect(() => renderChat(template, [user('x')])).toThrow(/refused the conversation: .*asked for "%H"/);
    await expect(requireChatTemplate(folder, { date: 'today' })).rejects.toThrow(/is today; a day such as/);
  });
});

describe('globals', () => {
  const render = async (source: string): Promise<string> =>
    renderChat(await requireChatTemplate(writeFolder({ 'chat_template.jinja': source })), [user('x')]);

  it('are those of transformers', async () => {
    expect(await render('{% for i in range(2, 9, 3) %}{{ i }} {% endfor %}')).toBe('2 5 8 ');
    expect(await render('{% for i in range(3) %}{{ i }}{% endfor %}')).toBe('012');
    expect(await render('{% set ns = namespace(a=1) %}{{ ns.a }}{{ True and true }}{{ None is none }}')).toBe(
      '1truetrue',
    );
    expect(await render('{{ tools is none }} {{ documents is none }} {{ bos_token is defined }}')).toBe(
      'true true false',
    );
  });

  it('refuse a range without end', async () => {
    await expect(render('{% for i in range(1000000000) %}x{% endfor %}')).rejects.toThrow(/at most 100000/);
    await expect(render('{{ range(1, 2, 0) }}')).rejects.toThrow(/step that is not 0/);
    await expect(render('{{ strftime_now(3) }}')).rejects.toThrow(/takes one text/);
  });
});

describe('encodeChat', () => {
  it.each([
    ['the one that the template writes', '{{ bos_token }}' + plain, '<s>[user] hi\n'],
    ['none where it writes none', plain, '[user] hi\n'],
    ['two where it writes two', '<s>{{ bos_token }}' + plain, '<s><s>[user] hi\n'],
  ])('has the beginning of sequence of the template alone: %s', async (_, source, text) => {
    const folder = writeFolder({
      'tokenizer.json': byteLevelTokenizer(),
      'tokenizer_config.json': config({ chat_template: source }),
    });
    const tokenizer = await loadTokenizer(folder);
    const ids = await encodeChat(tokenizer, await requireChatTemplate(folder), [user('hi')]);
    expect(tokenizer.decode(ids, { skipSpecialTokens: false })).toBe(text);
  });
});

describe('encodeRaw', () => {
  it('has the beginning of sequence once, whoever wrote it', async () => {
    const tokenizer = await loadTokenizer(writeFolder({ 'tokenizer.json': byteLevelTokenizer() }));
    const text = async (raw: string): Promise<string> =>
      tokenizer.decode(await encodeRaw(tokenizer, raw), { skipSpecialTokens: false });
    expect(await text('hi')).toBe('<s>hi');
    expect(await text('<s>hi')).toBe('<s>hi');
    expect(await text('</s>hi')).toBe('<s></s>hi');
  });
});

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { encodeChat } from '../../../test/support/text/encode-chat.js';
import { loadChatTemplate, readTemplate, renderChat, requireChatTemplate } from './chat-template.js';
import type { ChatMessage } from './chat-template.js';
import { byteLevelTokenizer, writeFolder } from '../../../test/support/text/sample-folders.js';
import { loadTokenizer } from '../tokenizer/tokenizer.js';

const say = (...contents: string[]): ChatMessage[] =>
  contents.map((content, index) => ({ role: index % 2 === 0 ? 'user' : 'assistant', content }));
const system: ChatMessage = { role: 'system', content: 'Be brief.' };
const vicunaSystem =
  'A chat between a curious user and an artificial intelligence assistant. ' +
  "The assistant gives helpful, detailed, and polite answers to the user's questions.";

describe('the built-in vicuna', () => {
  // FastChat, conversation template "vicuna_v1.1": get_prompt()
  it('writes what FastChat writes', async () => {
    const template = await requireChatTemplate(writeFolder({}), { chatTemplate: 'vicuna' });
    expect(template.origin).toBe('built in: vicuna');
    expect(renderChat(template, say('Hi'))).toBe(`${vicunaSystem} USER: Hi ASSISTANT:`);
    expect(renderChat(template, say('Hi', 'Hello.', 'And?'))).toBe(
      `${vicunaSystem} USER: Hi ASSISTANT: Hello.</s>USER: And? ASSISTANT:`,
    );
    expect(renderChat(template, [system, ...say('Hi')])).toBe('Be brief. USER: Hi ASSISTANT:');
  });

  it('leaves the beginning of sequence to the tokenizer', async () => {
    const folder = writeFolder({ 'tokenizer.json': byteLevelTokenizer() });
    const tokenizer = await loadTokenizer(folder);
    const template = await requireChatTemplate(folder, { chatTemplate: 'vicuna' });
    const ids = await encodeChat(tokenizer, template, say('Hi'));
    expect(tokenizer.decode(ids, { skipSpecialTokens: false })).toBe(
      `<s>${vicunaSystem} USER: Hi ASSISTANT:`,
    );
  });
});

describe('the built-in llama-2', () => {
  it('writes what Meta’s code writes', async () => {
    const template = await requireChatTemplate(writeFolder({}), { chatTemplate: 'llama-2' });
    expect(renderChat(template, say(' Hi '))).toBe('<s>[INST] Hi [/INST]');
    expect(renderChat(template, [system, ...say('Hi', 'Hello.', 'And?')])).toBe(
      '<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello. </s><s>[INST] And? [/INST]',
    );
  });
});

describe.each(['vicuna', 'llama-2'])('both, %s', (chatTemplate) => {
  it('refuse roles that do not take turns', async () => {
    const template = await requireChatTemplate(writeFolder({}), { chatTemplate });
    for (const messages of [[...say('a'), ...say('b')], [system, system], say('a').concat(system)]) {
      expect(() => renderChat(template, messages)).toThrow(/must take turns/);
    }
  });
});

it('gives runs what they save, and nothing else', async () => {
  expect(Object.keys(await readTemplate('vicuna')).sort()).toEqual(['addSpecialTokens', 'origin', 'source']);
});

describe('recognising a release', () => {
  const originOf = async (folder: string): Promise<string | undefined> =>
    (await loadChatTemplate(folder))?.origin;

  it('goes by config.json or the folder’s name, and only where no template is there', async () => {
    const named = (name: string): string => writeFolder({ 'config.json': { _name_or_path: name } });
    expect(await originOf(named('lmsys/vicuna-7b-v1.5-16k'))).toBe('built in: vicuna');
    expect(await originOf(named('/models/Llama-2-13b-chat-hf'))).toBe('built in: llama-2');
    for (const name of ['vicuna-7b-v0', 'my-vicuna', 'vicuna-13b-v1.0', 'meta-llama/Llama-2-7b-hf', '']) {
      expect(await originOf(named(name))).toBeUndefined();
    }
    const own = writeFolder({
      'config.json': { _name_or_path: 'lmsys/vicuna-7b-v1.5' },
      'chat_template.jinja': 'own',
    });
    expect(await originOf(own)).toBe(join(own, 'chat_template.jinja'));
  });

  it.each([
    ['vicuna-13b-v1.3', 'built in: vicuna'],
    ['models--lmsys--vicuna-7b-v1.5/snapshots/3321f7', 'built in: vicuna'],
    ['vicuna-7b-v1.5/other', undefined],
  ])('of a folder %s', async (path, origin) => {
    const folder = join(writeFolder({}), path);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'config.json'), '{"model_type": "llama"}');
    expect(await originOf(folder)).toBe(origin);
  });
});

describe('a template from elsewhere', () => {
  it('is a file, and wins over the folder’s own', async () => {
    const folder = writeFolder({ 'chat_template.jinja': 'own' });
    const other = join(writeFolder({ 'other.jinja': 'other {{ messages[0].content }}' }), 'other.jinja');
    const template = await requireChatTemplate(folder, { chatTemplate: other });
    expect(template.origin).toBe(other);
    expect(renderChat(template, say('x'))).toBe('other x');
  });

  it('is refused by name where it is neither there nor built in', async () => {
    await expect(loadChatTemplate(writeFolder({}), { chatTemplate: 'alpaca' })).rejects.toMatchObject({
      code: 'text',
      message: 'The chat template alpaca is not there; a file, or one of vicuna, llama-2 was expected.',
    });
  });
});

/**
 * Chat prompts of well-known models, held to what transformers makes of them. Published templates and vocabularies are
 * other people's text, so a fixture has a small template of our own that writes the same, and of the vocabulary only
 * the pieces and merges that its conversations need, at their published ids.
 *
 * How the expected values came about, with the date 2025-03-09: transformers 5.18, apply_chat_template with the published
 * template; ids by PreTrainedTokenizerFast with the published vocabulary, whole. For Vicuna, FastChat's text and
 * LlamaTokenizer on its tokenizer.model. `origin` in each file says what was published and what was not at hand.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { encodeChat } from './support/text/encode-chat.js';
import { renderChat, requireChatTemplate } from '../src/text/template/chat-template.js';
import { writeFolder } from './support/text/sample-folders.js';
import { loadTokenizer } from '../src/text/tokenizer/tokenizer.js';

const fixtureSchema = z.object({
  family: z.string(),
  model: z.string(),
  origin: z.string(),
  /** Of tokenizer_config.json, what decides an encoding. */
  config: z.looseObject({}),
  /** Absent where the built-in template of the release is meant. */
  template: z.string().optional(),
  cases: z.array(
    z.object({
      name: z.string(),
      messages: z.array(z.object({ role: z.enum(['system', 'user', 'assistant']), content: z.string() })),
      /** Null where the template refuses the conversation. */
      text: z.string().nullable(),
      /** Null where no vocabulary was at hand. */
      ids: z.array(z.number()).nullable(),
    }),
  ),
  tokenizer: z.looseObject({}).optional(),
});

const folder = join(import.meta.dirname, 'fixtures/chat');
const fixtures = readdirSync(folder).map((name) =>
  fixtureSchema.parse(JSON.parse(readFileSync(join(folder, name), 'utf8'))),
);

it('has every family that is named in the documentation', () => {
  expect(fixtures.map(({ family }) => family).sort()).toEqual(
    [
      ...['llama-2', 'llama-3', 'llama-3.1', 'llama-3.2', 'mistral-v0.1', 'mistral-v0.2', 'mistral-v0.3'],
      ...['qwen2', 'qwen2.5', 'qwen3', 'smollm2', 'tinyllama', 'vicuna'],
    ].sort(),
  );
});

describe.each(fixtures)('$model', ({ model, config, template: source, tokenizer: file, cases }) => {
  const write = (): string =>
    writeFolder({
      'config.json': { _name_or_path: model },
      'tokenizer_config.json': config,
      ...(source === undefined ? {} : { 'chat_template.jinja': source }),
      ...(file === undefined ? {} : { 'tokenizer.json': file }),
    });

  it.each(cases)('$name', async ({ messages, text, ids }) => {
    const path = write();
    const template = await requireChatTemplate(path, { date: '2025-03-09' });
    if (text === null) {
      expect(() => renderChat(template, messages)).toThrow(/refused the conversation/);
      return;
    }
    expect(renderChat(template, messages)).toBe(text);
    if (ids === null) return;
    const tokenizer = await loadTokenizer(path);
    expect(await encodeChat(tokenizer, template, messages)).toEqual(ids);
  });
});

describe('what the fixtures show', () => {
  const idsOf = (family: string): number[] => {
    const found = fixtures.find((fixture) => fixture.family === family)?.cases[0]?.ids;
    if (found == null) throw new Error(`${family} has no ids.`);
    return found;
  };

  it('a template without a beginning-of-sequence token gives a prompt without one', () => {
    expect(idsOf('tinyllama')).not.toContain(1);
    for (const family of ['vicuna', 'llama-2', 'mistral-v0.1', 'mistral-v0.2', 'mistral-v0.3']) {
      expect(idsOf(family).filter((id) => id === 1)).toEqual([1]);
      expect(idsOf(family)[0]).toBe(1);
    }
    for (const family of ['llama-3', 'llama-3.1', 'llama-3.2']) {
      expect(idsOf(family).filter((id) => id === 128_000)).toHaveLength(1);
    }
  });
});

import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadPrompts } from './prompt-set.js';
import { writeFolder } from '../../../test/support/text/sample-folders.js';

const load = (name: string, contents: string) => loadPrompts(join(writeFolder({ [name]: contents }), name));
const texts = async (name: string, contents: string): Promise<string[]> =>
  (await load(name, contents)).map(({ text }) => text);

describe('prompt lines', () => {
  it('reads the shapes that the field uses', async () => {
    const lines = [
      '{"question_id": 81, "category": "writing", "turns": ["One", "Two"], "reference": ["R", "S"]}',
      '',
      '{"prompt": "Three", "id": "own"}',
      '"Four"\r',
      '{"prompt": "Five", "reference": "T", "category": null, "extra": 1}',
    ];
    expect(await load('p.jsonl', '\uFEFF' + lines.join('\n') + '\n')).toEqual([
      { id: '81', category: 'writing', text: 'One', turns: ['One', 'Two'], reference: 'R' },
      { id: 'own', text: 'Three', turns: ['Three'] },
      { id: 'line-4', text: 'Four', turns: ['Four'] },
      { id: 'line-5', text: 'Five', turns: ['Five'], reference: 'T' },
    ]);
  });

  it.each([
    ['"fine"\n{"prompt": ', /p\.jsonl, line 2, is not valid JSON/],
    ['"fine"\n\n{"question": "x"}', /p\.jsonl, line 3, is not a prompt: .*saw \{"question": "x"\}/],
    ['{"turns": []}', /line 1, is not a prompt/],
    ['{"turns": ["x", " "]}', /line 1, is not a prompt/],
    ['{"prompt": 5}', /line 1, is not a prompt/],
    ['7', /line 1, is not a prompt/],
    [
      '{"id": 1, "prompt": "x"}\n{"question_id": "1", "prompt": "y"}',
      /line 2, has the id 1, which line 1 has/,
    ],
    ['\n \n', /p\.jsonl has no prompt/],
  ])('refuses %j with file and line', async (contents, message) => {
    await expect(load('p.jsonl', contents)).rejects.toMatchObject({
      code: 'text',
      message: expect.stringMatching(message) as string,
    });
  });
});

describe('plain text', () => {
  it('takes each line, or blocks where there are blank lines', async () => {
    expect(await texts('p.txt', 'one\r\ntwo\n')).toEqual(['one', 'two']);
    expect(await texts('p.txt', '\n  \none\n  more\n\n \ntwo\n\n')).toEqual(['one\n  more', 'two']);
    expect(await texts('p.txt', 'one\n\n')).toEqual(['one']);
    await expect(load('p.txt', ' \n')).rejects.toThrow(/has no prompt/);
  });
});

describe('a file of more prompts than may be', () => {
  it.each([
    ['p.txt', 'a\n'.repeat(490_000)],
    ['p.txt', 'a\n\n'.repeat(100_001)],
    ['p.jsonl', '"a"\n'.repeat(100_001)],
  ])('is refused: %s', async (name, contents) => {
    await expect(load(name, contents)).rejects.toThrow(/p\.\w+ has more than 100000 prompts/);
  });

  it('may have blank lines without number', async () => {
    expect(await texts('p.jsonl', `${'\n'.repeat(200_000)}"a"\n`)).toEqual(['a']);
  });
});

describe('sources', () => {
  it('takes anything that is not a file as the prompt itself', async () => {
    expect(await loadPrompts('What is 2 + 2?')).toEqual([
      { id: 'prompt', text: 'What is 2 + 2?', turns: ['What is 2 + 2?'] },
    ]);
    await expect(loadPrompts(' ')).rejects.toThrow(/prompt is empty/);
  });

  it('finds the known sets in the given folder', async () => {
    const folder = writeFolder({ 'mt_bench.jsonl': '"Hi"' });
    expect((await loadPrompts('mt-bench', { folder }))[0]?.text).toBe('Hi');
    await expect(loadPrompts('gsm8k', { folder })).rejects.toThrow(/gsm8k\.jsonl does not exist/);
    await expect(loadPrompts('gsm8k')).rejects.toThrow(/no folder was given/);
  });

  it('reads the set that comes with the project', async () => {
    const prompts = await loadPrompts(resolve(import.meta.dirname, '../../../examples/prompts.jsonl'));
    const count = (category: string): number =>
      prompts.filter((prompt) => prompt.category === category).length;
    expect(prompts).toHaveLength(12);
    expect([count('code'), count('maths')]).toEqual([8, 4]);
  });
});

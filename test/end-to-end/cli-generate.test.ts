import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { run } from '../../src/cli/program.js';
import type { FakeTerminalOptions } from '../support/fake-terminal.js';
import { createFakeTerminal } from '../support/fake-terminal.js';
import type { Outcome } from '../support/run-command.js';
import { createRunner } from '../support/run-command.js';
import type { FolderChanges } from '../support/model-folders.js';
import {
  bundledCache,
  referenceModels,
  referenceTarget,
  writeChangedTarget,
} from '../support/model-folders.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);
const generate = createRunner('generate', bundledCache);

interface JsonResult {
  readonly id?: string;
  readonly promptTokenIds: number[];
  readonly tokenIds: number[];
  readonly text: string;
  readonly finishReason: string;
}

async function generateJson(argv: readonly string[], options?: FakeTerminalOptions): Promise<JsonResult[]> {
  const { code, out, err } = await generate([...argv, '--format', 'json'], options);
  expect(err).toBe('');
  expect(code).toBe(0);
  return out
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as JsonResult);
}

let folders = 0;
const changedTarget = (changes: FolderChanges): string =>
  writeChangedTarget(join(temporary.path, `target-${folders++}`), changes);

function expectRefusal({ code, out, err }: Outcome, ...patterns: RegExp[]): void {
  expect(err.trimEnd().split('\n').length).toBeLessThanOrEqual(2);
  for (const pattern of patterns) expect(err).toMatch(pattern);
  expect(err).toMatch(/^error: \S.*[.?!)]\n(hint: {2}\S.*\n)?$/);
  expect(out).toBe('');
  expect(code).toBe(2);
}

describe('mistletoe generate', () => {
  const sky = ['--prompt', 'Why is the sky blue?', '-n', '8'];

  it('streams text to stdout and a summary to stderr', async () => {
    let writes = 0;
    const { code, out, err } = await generate(sky, { onWrite: () => (writes += 1) });
    expect(code).toBe(0);
    expect(out).toMatch(/^\S[^]*\n$/);
    expect(writes).toBeGreaterThanOrEqual(8);
    expect(err).toMatch(
      /^\d+ prompt tokens in \d+ ms · 8 new tokens · [\d.]+ tokens\/s · reached --max-new-tokens\n$/,
    );
  });

  it('prints exactly the promised keys as JSON', async () => {
    const [result] = await generateJson(sky);
    expect(Object.keys(result!)).toEqual([
      'promptTokenIds',
      'tokenIds',
      'text',
      'finishReason',
      'preparationMs',
      'prefillMs',
      'decodeMs',
      'tokensPerSecond',
    ]);
    expect(result).toMatchObject({ finishReason: 'length' });
    expect(result!.tokenIds).toHaveLength(8);
    expect((await generate(sky)).out).toBe(`${result!.text.trimStart()}\n`);
  });

  it('takes the prompt as its argument', async () => {
    const [named, ...rest] = [await generateJson(sky), await generateJson([sky[1]!, '-n', '8'])];
    expect(rest[0][0]!.tokenIds).toEqual(named[0]!.tokenIds);
    expectRefusal(await generate(['Hello', '--prompt', 'Hello']), /both given/);
  });

  it('uses the chat template by default, and the text as it is with --raw', async () => {
    const prompt = ['--prompt', 'Hello', '-n', '4'];
    const [plain] = await generateJson(prompt);
    const [chat] = await generateJson([...prompt, '--chat']);
    const [raw] = await generateJson([...prompt, '--raw']);
    const [written] = await generateJson(['--raw', '--prompt', 'USER: Hello ASSISTANT:', '-n', '4']);
    expect(chat!.promptTokenIds).toEqual(plain!.promptTokenIds);
    expect(written!.promptTokenIds).toEqual(plain!.promptTokenIds);
    expect(raw!.promptTokenIds.length).toBeLessThan(plain!.promptTokenIds.length);
  });

  it('takes a chat template from elsewhere, and the date that it asks for', async () => {
    const prompt = ['--prompt', 'Hello', '-n', '2'];
    const raw = async (text: string): Promise<number[]> =>
      (await generateJson(['--raw', '--prompt', text, '-n', '2']))[0]!.promptTokenIds;
    const [vicuna] = await generateJson([...prompt, '--chat-template', 'vicuna']);
    expect(vicuna!.promptTokenIds).toEqual(
      await raw(
        'A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, ' +
          "detailed, and polite answers to the user's questions. USER: Hello ASSISTANT:",
      ),
    );
    const file = join(temporary.path, 'dated.jinja');
    writeFileSync(file, "{{ bos_token }}{{ strftime_now('%d %b %Y') }}: {{ messages[0].content }}");
    const [dated] = await generateJson([...prompt, '--chat-template', file, '--date', '2024-07-26']);
    expect(dated!.promptTokenIds).toEqual(await raw('26 Jul 2024: Hello'));
  });

  it('refuses a template that is not there, one beside --raw, and a date that is none', async () => {
    const prompt = ['--prompt', 'Hello'];
    expectRefusal(
      await generate([...prompt, '--chat-template', 'alpaca']),
      /The chat template alpaca is not there; a file, or one of vicuna, llama-2 was expected/,
    );
    expectRefusal(await generate([...prompt, '--chat-template', 'vicuna', '--raw']), /--raw/);
    expectRefusal(await generate([...prompt, '--date', '2024-02-30']), /--date is 2024-02-30; a day such as/);
  });

  it('takes a folder without chat template as raw', async () => {
    const target = changedTarget({ 'chat_template.jinja': undefined });
    const [result] = await generateJson(['--target', target, '--prompt', 'Hello', '-n', '2']);
    const [raw] = await generateJson(['--raw', '--prompt', 'Hello', '-n', '2']);
    expect(result!.promptTokenIds).toEqual(raw!.promptTokenIds);
  });

  it('reads the prompt from stdin, without the newline that ends it', async () => {
    const [given] = await generateJson(['--prompt', 'Why?\nReally.', '-n', '2']);
    const [piped] = await generateJson(['--prompt', '-', '-n', '2'], { stdin: 'Why?\nReally.\n' });
    expect(piped!.promptTokenIds).toEqual(given!.promptTokenIds);
  });

  it('answers every prompt of a file, one JSON line each', async () => {
    const file = join(temporary.path, 'prompts.jsonl');
    writeFileSync(file, '{"id": "a", "prompt": "One?"}\n{"question_id": 7, "turns": ["Two?", "Three?"]}\n');
    const results = await generateJson(['--prompts', file, '-n', '3']);
    expect(results.map(({ id }) => id)).toEqual(['a', '7']);
    const [alone] = await generateJson(['--prompt', 'Two?', '-n', '3']);
    expect(results[1]!.tokenIds).toEqual(alone!.tokenIds);
    const { out } = await generate(['--prompts', file, '-n', '3']);
    expect(out).toMatch(/^\[a\] One\?\n[^]+\n\n\[7\] Two\?\n/);
  });

  it('samples by seed', async () => {
    const sampled = (seed: string): Promise<JsonResult[]> =>
      generateJson([...sky, '--temperature', '1.5', '--top-p', '0.95', '--top-k', '200', '--seed', seed]);
    const [first, again, other] = [await sampled('3'), await sampled('3'), await sampled('4')];
    expect(again[0]!.tokenIds).toEqual(first[0]!.tokenIds);
    expect(other[0]!.tokenIds).not.toEqual(first[0]!.tokenIds);
  });

  it('ends before a stop text', async () => {
    const [whole] = await generateJson(sky);
    const stop = whole!.text.slice(8, 14);
    const [stopped] = await generateJson([...sky, '--stop', 'never seen', '--stop', stop]);
    expect(stopped!.finishReason).toBe('stop-string');
    expect(stopped!.text).toBe(whole!.text.slice(0, whole!.text.indexOf(stop)));
  });

  it('ends at the tokens that generation_config.json adds', async () => {
    const [whole] = await generateJson(sky);
    const target = changedTarget({ 'generation_config.json': { eos_token_id: [2, whole!.tokenIds[5]] } });
    const [ended] = await generateJson([...sky, '--target', target]);
    expect(ended!.finishReason).toBe('stop');
    expect(ended!.tokenIds).toEqual(
      whole!.tokenIds.slice(0, whole!.tokenIds.indexOf(whole!.tokenIds[5]!) + 1),
    );
  });

  it('keeps what it has at Ctrl-C and exits 130', async () => {
    const file = join(temporary.path, 'two.txt');
    writeFileSync(file, 'One?\nTwo?\n');
    const { code, out, err } = await generate(['--prompts', file, '-n', '500'], {
      onWrite: ({ interrupt }) => {
        interrupt();
      },
    });
    expect(code).toBe(130);
    expect(out).toMatch(/^\[prompt-1\] One\?\n.*\n\n$/);
    expect(err).toMatch(/interrupted\n$/);
  });

  it('stops without complaint when nobody reads any more', async () => {
    let writes = 0;
    const { code } = await generate(['--prompt', 'Tell me a story.', '-n', '500'], {
      onWrite: ({ closeReader }) => {
        writes += 1;
        closeReader();
      },
    });
    expect(code).toBe(0);
    expect(writes).toBeLessThan(10);
  });

  it('colours only a terminal, and none that refuses', async () => {
    const onTerminal = await generate(sky, { isTerminal: true });
    expect(onTerminal.err).toContain('\u001b[');
    const refused = await generate(sky, { isTerminal: true, environment: { NO_COLOR: '1' } });
    expect(refused.err).not.toContain('\u001b[');
  });
});

describe('mistletoe generate refuses', () => {
  it.each([
    { argv: [], patterns: [/no prompt/, /--prompts FILE/] },
    { argv: ['--prompt', ' '], patterns: [/prompt is empty/] },
    {
      argv: ['--prompt', 'a', '--temprature', '1'],
      patterns: [/'--temprature'/, /Did you mean --temperature\?/],
    },
    {
      argv: ['--prompt', 'a', '--temperature', 'abc'],
      patterns: [/--temperature.*'abc'.*expected a number of 0/],
    },
    { argv: ['--prompt', 'a', '--temperature', '-1'], patterns: [/'-1'.*expected a number of 0 or more/] },
    { argv: ['--prompt', 'a', '--temperature', '0x10'], patterns: [/'0x10'/] },
    { argv: ['--prompt', 'a', '--top-p', '1.5'], patterns: [/'1\.5'.*above 0 and up to 1/] },
    { argv: ['--prompt', 'a', '--top-k', '0'], patterns: [/'0'.*whole number of 1 or more/] },
    { argv: ['--prompt', 'a', '--seed', '1.5'], patterns: [/'1\.5'.*whole number/] },
    { argv: ['--prompt', 'a', '-n', ''], patterns: [/--max-new-tokens.*whole number/] },
    { argv: ['--prompt', 'a', '--threads', '0'], patterns: [/--threads.*whole number/] },
    {
      argv: ['--prompt', 'a', '--device', 'gpu'],
      patterns: [/--device.*'gpu'.*expected auto, cpu, cuda or cuda:N/],
    },
    { argv: ['--prompt', 'a', '--device', 'cuda:x'], patterns: [/'cuda:x'/] },
    { argv: ['--prompt', 'a', '--device', 'cuda:4999'], patterns: [/cuda:4999/] },
    {
      argv: ['--prompt', 'a', '--dtype', 'int2'],
      patterns: [/'int2'.*float32, bfloat16, float16, int8, int4/],
    },
    {
      argv: ['--prompt', 'a', '--device', 'cuda', '--dtype', 'int8'],
      patterns: [/int8, which the CPU alone has/],
    },
    {
      argv: ['--prompt', 'a', '--device', 'cpu', '--dtype', 'bfloat16'],
      patterns: [/--dtype is bfloat16; the CPU has float32, int8 and int4/, /Leave --dtype out/],
    },
    { argv: ['--prompt', 'a', '--format', 'xml'], patterns: [/'xml'.*text, json/] },
    { argv: ['--prompt', 'a', '--stop', ''], patterns: [/stop string is empty/] },
    { argv: ['--prompt', 'a', '--chat', '--raw'], patterns: [/--chat.*--raw/] },
    { argv: ['--prompt', 'a', '--prompts', 'b.txt'], patterns: [/--prompt.*--prompts/] },
    { argv: ['--prompts', 'prompts.csv'], patterns: [/prompts\.csv.*\.jsonl or \.txt/] },
    { argv: ['--prompts', 'nowhere.jsonl'], patterns: [/nowhere\.jsonl does not exist/] },
    { argv: ['--prompt', 'a', 'more'], patterns: [/"more" and --prompt were both given/] },
    {
      argv: ['--prompt', 'a', '--target', '/no/such/folder'],
      patterns: [/\/no\/such\/folder does not exist/],
    },
    {
      argv: ['--prompt', 'a', '--target', join(referenceModels, 'medusa')],
      patterns: [/holds a drafter \(Medusa-1 heads\)/],
    },
    {
      argv: ['--prompt', 'a', '--target', join(referenceModels, 'sps')],
      patterns: [/tokenizer\.json does not exist/],
    },
  ])('$argv', async ({ argv, patterns }) => {
    expectRefusal(await generate(argv), ...patterns);
  });

  it('an unknown command, with a suggestion', async () => {
    const terminal = createFakeTerminal();
    const code = await run(['generat'], terminal);
    expectRefusal({ code, ...terminal.written }, /Unknown command 'generat'/, /Did you mean generate\?/);
  });

  const refuseTarget = async (changes: FolderChanges, ...patterns: RegExp[]): Promise<void> => {
    const target = changedTarget(changes);
    expectRefusal(await generate(['--prompt', 'a', '--chat', '--target', target]), ...patterns);
  };
  const config = (changes: object): object => ({
    ...(JSON.parse(readFileSync(join(referenceTarget, 'config.json'), 'utf8')) as object),
    ...changes,
  });

  it('an unsupported architecture, naming it and the supported ones', () =>
    refuseTarget(
      { 'config.json': config({ architectures: ['GPT2LMHeadModel'] }) },
      /GPT2LMHeadModel.*not supported/,
      /LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM/,
    ));

  it('a missing shard', () =>
    refuseTarget(
      { 'model-00002-of-00002.safetensors': undefined },
      /model-00002-of-00002\.safetensors does not exist/,
    ));

  it('a truncated shard', () =>
    refuseTarget(
      {
        'model-00002-of-00002.safetensors': readFileSync(
          join(referenceTarget, 'model-00002-of-00002.safetensors'),
        ).subarray(0, 100_000),
      },
      /model-00002-of-00002\.safetensors/,
      /download/,
    ));

  it('an index that names a missing tensor', () => {
    const index = JSON.parse(readFileSync(join(referenceTarget, 'model.safetensors.index.json'), 'utf8')) as {
      weight_map: Record<string, string>;
    };
    index.weight_map['model.layers.8.mlp.up_proj.weight'] = 'model-00002-of-00002.safetensors';
    return refuseTarget(
      { 'model.safetensors.index.json': index },
      /"model\.layers\.8\.mlp\.up_proj\.weight"/,
    );
  });

  it('weights of another shape', () =>
    refuseTarget(
      { 'config.json': config({ intermediate_size: 880 }) },
      /shape \[864, 320\], expected \[880, 320\]/,
    ));

  it('--chat without chat template', () =>
    refuseTarget({ 'chat_template.jinja': undefined }, /has no chat template/, /--raw/));

  it('a broken generation_config.json', () =>
    refuseTarget({ 'generation_config.json': { eos_token_id: 'end' } }, /eos_token_id/));

  it('a corrupted tokenizer', () =>
    refuseTarget({ 'tokenizer.json': '{"version": "1.0"' }, /tokenizer\.json/));

  it('a prompt longer than the context, by its name', async () => {
    const file = join(temporary.path, 'long.jsonl');
    writeFileSync(file, JSON.stringify({ id: 'long-one', prompt: 'word '.repeat(3000) }));
    const outcome = await generate(['--prompts', file, '--format', 'json']);
    expectRefusal(outcome, /Prompt long-one of .* has \d{4} tokens; the context of target has 2048/);
  });
});

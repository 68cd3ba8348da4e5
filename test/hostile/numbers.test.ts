/** Numbers and files beyond all measure are refused by one sentence, before anything is built by them. */
import { openSync, closeSync, ftruncateSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { deepestDraft, fileLimits, maxDraftNodes } from '../../src/core/limits.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { writeChangedTarget } from '../support/model-folders.js';
import { createRunner } from '../support/run-command.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);
const cache = join(temporary.path, 'cache');
const commands = {
  generate: createRunner('generate', cache),
  bench: createRunner('bench', cache),
  audit: createRunner('audit', cache),
};
type CommandName = keyof typeof commands;

const written = (name: string, contents: string): string => {
  const path = join(temporary.path, name);
  writeFileSync(path, contents);
  return path;
};

/** A file of this size that takes no room on the disk. */
function writeSparse(path: string, sizeBytes: number): string {
  const file = openSync(path, 'w');
  ftruncateSync(file, sizeBytes);
  closeSync(file);
  return path;
}

describe('an option', () => {
  const prompt = ['--prompt', 'Hello'];
  const speculative = [...prompt, '-d', 'sps', '--draft'];
  const wide = JSON.stringify(Array.from({ length: maxDraftNodes }, (_, rank) => [rank]));
  const deep = JSON.stringify(
    Array.from({ length: deepestDraft + 1 }, (_, depth) => new Array<number>(depth + 1).fill(0)),
  );
  it.each<readonly [CommandName, readonly string[], RegExp]>([
    ['generate', [...prompt, '-n', '1e18'], /expected a whole number of 1 or more|from 1 to 10000000/],
    ['generate', [...prompt, '-n', '99999999999999999999'], /from 1 to 10000000/],
    ['generate', [...prompt, '-n', '10000001'], /from 1 to 10000000/],
    ['generate', [...prompt, '--seed', '1e400'], /whole number of 0 or more/],
    ['generate', [...prompt, '--seed', '99999999999999999999'], /whole number of 0 or more/],
    ['generate', [...prompt, '--threads', '100000'], /from 1 to 512/],
    ['generate', [...prompt, '--threads', '0'], /from 1 to 512/],
    ['generate', [...prompt, '--temperature', '1e400'], /a number of 0 or more/],
    ['generate', [...speculative, 'chain:3000'], /a length from 1 to 64 was expected/],
    ['generate', [...speculative, 'chain:99999999999'], /is not understood/],
    ['generate', [...speculative, 'dynamic:900000,900,900'], /a total up to 1024/],
    ['generate', [...speculative, 'dynamic:60,64,10'], /a depth up to 63/],
    ['generate', [...speculative, 'dynamic:60,5,65'], /a top-k up to 64/],
    ['generate', [...speculative, `tree:${written('wide.json', wide)}`], /has 1024 paths; at most 1023/],
    ['generate', [...speculative, `tree:${written('deep.json', deep)}`], /is 65 deep; at most 64/],
    ['bench', ['--limit', '-1'], /whole number of 1 or more/],
    ['bench', ['--warmup', '1000000000000'], /from 0 to 1000/],
    ['bench', ['--draft', 'chain:3000'], /a length from 1 to 64/],
    ['audit', ['--draft', 'chain:3000'], /a length from 1 to 64/],
    [
      'audit',
      ['--suffix-length', '1000000000'],
      /--suffix-length .* is invalid; expected a whole number from 1 to 1024/,
    ],
    [
      'audit',
      ['--candidates', '1000000000'],
      /--candidates .* is invalid; expected a whole number from 1 to 16384/,
    ],
    [
      'audit',
      ['--steps', '1000000000000'],
      /--steps .* is invalid; expected a whole number from 1 to 1000000/,
    ],
    ['audit', ['--starts', '1000000000'], /--starts .* is invalid; expected a whole number from 1 to /],
    [
      'audit',
      ['--max-new-tokens', '1000000000'],
      /--max-new-tokens .* is invalid; expected a whole number from 1 to /,
    ],
    ['audit', ['--window', '1000000000'], /--window .* is invalid; expected a whole number from 1 to /],
    [
      'audit',
      ['--random-draws', '1000000000'],
      /--random-draws .* is invalid; expected a whole number from 1 to /,
    ],
    ['audit', ['--repeats', '1000000000'], /--repeats .* is invalid; expected a whole number from 1 to /],
    [
      'audit',
      ['--draft-depth', '1000000000'],
      /--draft-depth .* is invalid; expected a whole number from 1 to /,
    ],
    ['audit', ['--threads', '100000'], /from 1 to 512/],
  ])('of %s: %j', async (name, options, message) => {
    const { code, out, err } = await commands[name](options);
    expect(err).toMatch(message);
    expect(err).toMatch(/^hint: /m);
    expect({ code, out }).toEqual({ code: 2, out: '' });
  });

  it.each([0, 1.5, 513, NaN])('of the library: %d threads', (threads) => {
    expect(() => createOnnxRuntime({ threads })).toThrow('a whole number from 1 to 512 was expected');
  });
});

describe('a file that is larger than its kind', () => {
  const files = {
    'config.json': fileLimits.configuration,
    'generation_config.json': fileLimits.configuration,
    'tokenizer_config.json': fileLimits.tokenizerConfiguration,
    'tokenizer.json': fileLimits.tokenizer,
    'chat_template.jinja': fileLimits.template,
    'model.safetensors.index.json': fileLimits.shardIndex,
  };
  it.each(Object.entries(files))('%s', async (name, limit) => {
    const folder = writeChangedTarget(join(temporary.path, `with-${name}`), { [name]: undefined });
    writeSparse(join(folder, name), limit + 1);
    const { code, err } = await commands.generate(['--target', folder, '--prompt', 'Hello']);
    expect(err).toContain(join(folder, name));
    expect(err).toMatch(
      new RegExp(`${limit + 1} bytes, (and ${limit} are the most that is|at most ${limit} are) read`),
    );
    expect(code).toBe(2);
  });

  it('a prompt set and a tree', async () => {
    const prompts = writeSparse(join(temporary.path, 'large.jsonl'), fileLimits.promptSet + 1);
    expect((await commands.generate(['--prompts', prompts])).err).toContain(
      `${fileLimits.promptSet} are the most`,
    );
    const tree = writeSparse(join(temporary.path, 'large.json'), fileLimits.tree + 1);
    const options = ['--prompt', 'Hello', '-d', 'sps', '--draft', `tree:${tree}`];
    expect((await commands.generate(options)).err).toContain(`${fileLimits.tree} are the most`);
  });
});

describe('a prompt that cannot fit', () => {
  const text = 'All work and no play. '.repeat(70_000);

  it.each([
    ['raw', ['--raw']],
    ['through the template', ['--chat']],
  ])('is refused by its size: %s', async (_, options) => {
    const file = join(temporary.path, 'prompt.jsonl');
    writeFileSync(file, JSON.stringify({ prompt: text }));
    const { code, err } = await commands.generate([...options, '--prompts', file, '-n', '1']);
    expect(err).toMatch(/has 15\d{5} bytes, which are \d+ tokens or more; the context of target has \d+\./);
    expect(code).toBe(2);
  });

  it('is passed over by an audit', async () => {
    const file = join(temporary.path, 'audited.jsonl');
    writeFileSync(file, JSON.stringify({ prompt: text }));
    mkdirSync(join(temporary.path, 'runs'));
    const { code, err } = await commands.audit(['-p', file, '--out', join(temporary.path, 'runs/a')]);
    expect(err).toMatch(/bytes, which are \d+ tokens or more/);
    expect(code).toBe(3);
  });
});

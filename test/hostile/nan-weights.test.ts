/** Weights that hold NaN or infinite values choose no tokens: whoever runs them is told, and nothing is measured. */
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { WritableTensors } from '../support/checkpoint/encode-values.js';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { createRunner } from '../support/run-command.js';
import {
  decoderTensors,
  llamaConfig,
  tiny,
  writeCheckpoint,
  writeDecoder,
  writeLetterTokenizer,
} from '../support/tiny-checkpoints.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);
const cache = join(temporary.path, 'cache');
const generate = createRunner('generate', cache);
const bench = createRunner('bench', cache);
const audit = createRunner('audit', cache);

let count = 0;
const freshFolder = (): string => join(temporary.path, `model-${(count += 1)}`);

/** A tiny decoder with one value of one tensor replaced. */
function writeBroken(tensor: string, index: number, value: number): string {
  const tensors: WritableTensors = decoderTensors(tiny);
  const { shape, values } = tensors[tensor]!;
  const broken = Float32Array.from(values as Float32Array);
  broken[index] = value;
  const all = { ...tensors, [tensor]: { dtype: 'F32' as const, shape, values: broken } };
  const folder = writeCheckpoint(freshFolder(), 'model.safetensors', all, llamaConfig(tiny));
  writeLetterTokenizer(folder, tiny);
  return folder;
}

function writeSound(): string {
  const folder = writeDecoder(freshFolder());
  writeLetterTokenizer(folder, tiny);
  return folder;
}

const sound = writeSound();
const prompts = join(temporary.path, 'prompts.txt');
writeFileSync(prompts, 'abcde\nfghij\n');

const greedy = ['greedy', []] as const;
const places = [
  ['a projection of the first layer', 'model.layers.0.mlp.up_proj.weight', 3, [greedy]],
  ['the norm at the end', 'model.norm.weight', 2, [greedy]],
  [
    // Only one of the scores is touched, and no maximum shows it.
    ...(['one row of the output', 'lm_head.weight', 5 * tiny.hiddenSize] as const),
    [
      greedy,
      ['drawn', ['--temperature', '1']],
      ['drawn from the best', ['--temperature', '1', '--top-k', '3']],
      ['drafted', ['--drafter', sound, '--draft', 'chain:2']],
    ],
  ],
] as const;

describe.each(places)('a target with NaN in %s', (_, tensor, index, ways) => {
  const broken = writeBroken(tensor, index, NaN);

  it.each(ways)('answers nothing: %s', async (__, options) => {
    const { code, out, err } = await generate(['--target', broken, '--prompt', 'abc', ...options]);
    expect(err).toMatch(
      /^error: model-\d+ gives scores that are no numbers after 3 tokens \(their sum is NaN/m,
    );
    expect(err).toMatch(/^hint: .*damaged.*float16/m);
    expect(err).not.toContain('bug');
    expect({ code, out: out.trim() }).toEqual({ code: 2, out: '' });
  });
});

it('an infinite weight is told as well', async () => {
  const broken = writeBroken('lm_head.weight', 7 * tiny.hiddenSize, Infinity);
  const { code, err } = await generate(['--target', broken, '--prompt', 'abc']);
  expect({ code, told: /no numbers after 3 tokens \(their sum is (NaN|-?Infinity)/.test(err) }).toEqual({
    code: 2,
    told: true,
  });
});

it('a token whose embedding is NaN is told when it is read, not before', async () => {
  const letter = 2; // c
  const broken = writeBroken('model.embed_tokens.weight', letter * tiny.hiddenSize, NaN);
  const one = ['--target', broken, '-n', '1', '--raw', '--prompt'];
  expect((await generate([...one, 'abd'])).code).toBe(0);
  const { code, err } = await generate([...one, 'abdc']);
  expect(code).toBe(2);
  expect(err).toContain('no numbers after 4 tokens (their sum is NaN; token 2 was the last)');
});

describe('what measures', () => {
  const broken = writeBroken('model.layers.1.self_attn.v_proj.weight', 0, NaN);

  it('bench refuses such a target', async () => {
    const { code, out, err } = await bench([
      '--target',
      broken,
      '--drafter',
      sound,
      '-p',
      prompts,
      '-n',
      '8',
    ]);
    expect(err).toMatch(/^error: model-\d+ gives scores that are no numbers after 5 tokens/m);
    expect({ code, out }).toEqual({ code: 2, out: '' });
  });

  const settings = ['--raw', '-n', '16', '--shortest-answer', '4', '--steps', '2', '--starts', '1'];

  it.each([
    ['target', broken, sound, /model-\d+ gives scores that are no numbers after \d+ token/],
    ['drafter', sound, broken, /model-\d+: The drafter gives scores that are no numbers \(NaN\)/],
  ])('an audit refuses such a %s and writes no result', async (_, target, drafter, message) => {
    const run = freshFolder();
    const models = ['--target', target, '--drafter', drafter, '-p', prompts, '--allow-non-ascii'];
    const { code, err } = await audit([...models, ...settings, '--suffix-length', '3', '--out', run]);
    expect(err).toMatch(message);
    expect(code).toBe(2);
    expect(existsSync(join(run, 'result.json'))).toBe(false);
  });

  it('a drafter of NaN costs the drafts, not the answer, and is told', async () => {
    const options = ['--target', sound, '--prompt', 'abc', '-n', '12'];
    const plain = await generate(options);
    for (const draft of ['chain:2', 'auto']) {
      const drafted = await generate([...options, '--drafter', broken, '--draft', draft]);
      expect({ code: drafted.code, out: drafted.out }).toEqual({ code: 0, out: plain.out });
      expect(drafted.err).toMatch(/note: .*no numbers \(NaN\).*continues with plain decoding/);
    }
  });

  it('bench says in how many answers a drafter failed', async () => {
    const { code, out } = await bench(['--target', sound, '--drafter', broken, '-p', prompts, '-n', '8']);
    expect(code).toBe(0);
    expect(out).toMatch(/the drafter failed in 2 of 2 answers/);
  });
});

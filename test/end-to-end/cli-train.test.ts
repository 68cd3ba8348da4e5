/** `mistletoe train` with tiny models: what it makes can be used, and what it refuses is one sentence. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { openCheckpoint } from '../../src/checkpoint/open-checkpoint.js';
import { readFloat32 } from '../../src/checkpoint/read-tensor.js';
import type { TrainingResult } from '../../src/train/train-run.js';
import { tiny, writeDecoder, writeLetterTokenizer } from '../support/tiny-checkpoints.js';
import { readResult, readWeights, TrainCommands } from './train-commands.js';

const commands = new TrainCommands({ ...tiny, layerCount: 3 });
afterAll(() => commands.dispose());

describe('a fresh drafter', () => {
  it('learns, loads and drafts', async () => {
    await commands.expectToLearn('medusa');
  });

  it('learns from the first conversations of the data alone, where that is asked for', async () => {
    const { folder, code } = await commands.train(['--system', 'medusa', '--limit', '5', '--steps', '1']);
    expect(code).toBe(0);
    expect(readResult(folder).data.conversations).toBe(5);
    expect(readFileSync(join(folder, 'answers.jsonl'), 'utf8').match(/\n/g)).toHaveLength(5);
    const help = async (name: string): Promise<string | undefined> =>
      /--limit <count>[^-]*/.exec((await commands.run([name, '--help'])).out)?.[0].replace(/\s+/g, ' ');
    expect(await help('train')).toContain('use only the first conversations');
    expect(await help('bench')).toContain('use only the first prompts');
  });

  it('has the sizes that are asked for', async () => {
    const sizes = ['--heads', '2', '--prefix-layer', '--steps', '1'];
    const { folder, code } = await commands.train(['--system', 'hydra', ...sizes]);
    expect(code).toBe(0);
    const { out } = await commands.run(['inspect', join(folder, 'last')]);
    expect(out).toMatch(/Hydra\+\+/);
    expect(readResult(folder).settings).toMatchObject({ depth: 2, chain: 2 });
  });

  it('reads its texts through the chat template that is given, whatever becomes of its file', async () => {
    const template = `${commands.models.freshFolder()}.jinja`;
    writeFileSync(template, "u{{ messages[0]['content'] }}a");
    const { folder, code } = await commands.train([
      '--system',
      'eagle',
      '--chat-template',
      template,
      '--steps',
      '1',
    ]);
    expect(code).toBe(0);
    const [line] = readFileSync(join(folder, 'answers.jsonl'), 'utf8').split('\n');
    const { turns } = JSON.parse(line!) as { turns: { prompt: number[] }[] };
    expect(turns[0]?.prompt.at(0)).toBe('u'.charCodeAt(0) - 97);
    writeFileSync(template, 'x');
    expect((await commands.resume(folder)).code).toBe(0);
  });

  it('learns from answers in the data where the target may not write', async () => {
    const answered = `${commands.models.freshFolder()}.jsonl`;
    const line = (prompt: string): string => JSON.stringify({ prompt, answer: 'hgfedcba' });
    writeFileSync(answered, ['abc', 'bcd', 'cde', 'def', 'efg'].map(line).join('\n'));
    const { folder, code } = await commands.train([
      ...['--system', 'medusa', '--data', answered, '--no-generate', '--labels', 'tokens', '--steps', '2'],
    ]);
    expect(code).toBe(0);
    const turns = readFileSync(join(folder, 'answers.jsonl'), 'utf8').trim().split('\n');
    expect(turns.every((text) => text.includes('"ended":"given"'))).toBe(true);
  });
});

describe('what an earlier run leaves', () => {
  it('saves the answers of the next one, which becomes the same drafter', async () => {
    const words = ['--system', 'eagle', '--steps', '6'];
    const first = await commands.train([...words, '--progress', 'plain']);
    expect(first.err).toContain('answers: 24 to do');
    const second = await commands.train([...words, '--answers', first.folder, '--progress', 'plain']);
    expect(second.code).toBe(0);
    expect(second.err).not.toContain('answers:');
    const [before, after] = [first, second].map(({ folder }) => readWeights(join(folder, 'last')));
    expect(after!.equals(before!)).toBe(true);
    const changed = await commands.train([...words, '--answers', first.folder, '-n', '10']);
    expect(changed.code).toBe(2);
    expect(changed.err).toMatch(/answers the conversation \S+, but its text or the way in which it is asked/);
  });

  it('is not asked for by heads, whose target knows the language; a draft model learns prompts, too', async () => {
    const counts = await Promise.all(
      ['answers', 'all'].map(async (learn) => {
        const { folder } = await commands.train([
          '--system',
          'speculative-sampling',
          '--steps',
          '1',
          '--learn',
          learn,
        ]);
        const { training } = readResult(folder).data;
        return [training.learntTokens, training.tokens] as const;
      }),
    );
    const [answers, all] = counts;
    expect(answers![0]).toBeLessThan(answers![1]);
    expect(all![0]).toBe(all![1]);
  });
});

describe('--from', () => {
  it('goes on from where the drafter is, in its own layout', async () => {
    const drafter = commands.models.writeDrafter('Medusa, torch file');
    const first = await commands.train(['--from', drafter, '--steps', '6']);
    expect([first.code, first.err]).toEqual([0, '']);
    const before = readResult(first.folder);
    expect(before.from?.name).toBeDefined();
    const second = await commands.train(['--from', join(first.folder, 'best'), '--steps', '1']);
    expect(second.code).toBe(0);
    expect(readResult(second.folder).lengths?.first.length).toBe(before.lengths?.best.length);
  });
});

describe('layers of the target', () => {
  it('are a draft model to begin with, and the report says so', async () => {
    const words = ['--system', 'speculative-sampling', '--target-layers', '2', '--steps', '2'];
    const { folder, code, err } = await commands.train([...words, '--progress', 'plain']);
    expect(code).toBe(0);
    expect(err).toMatch(/^train: speculative-sampling for target, 2 layers of the target, run folder /);
    expect(readFileSync(join(folder, 'report.md'), 'utf8')).toContain(', from 2 layers of the target');
  });

  it('can be all that is trained', async () => {
    const words = ['--system', 'speculative-sampling', '--target-layers', '2', '--steps', '2'];
    const { folder } = await commands.train([...words, '--freeze', 'vocabulary']);
    const { tensors: target } = await openCheckpoint(commands.models.targetFolder);
    const { tensors: trained } = await openCheckpoint(join(folder, 'last'));
    const isKept = async (name: string): Promise<boolean> => {
      const [before, after] = [await readFloat32(target.get(name)!), await readFloat32(trained.get(name)!)];
      return before.every((value, index) => value === after[index]);
    };
    for (const name of ['model.embed_tokens.weight', 'lm_head.weight'])
      expect([name, await isKept(name)]).toEqual([name, true]);
    for (const name of ['model.layers.0.mlp.up_proj.weight', 'model.norm.weight'])
      expect([name, await isKept(name)]).toEqual([name, false]);
  });
});

describe('what it prints', () => {
  it('is a table, where the drafters lie and what to do next', async () => {
    const { folder, code, out, err } = await commands.train(['--system', 'eagle', '--progress', 'plain']);
    expect(code).toBe(0);
    expect(err).toMatch(/^train: eagle for target, fresh weights, run folder /);
    expect(err).toContain('answers: 24/24 (100 %)');
    expect(err).toMatch(
      /train: 12\/12 \(100 %\) {2}left 0 s {2}loss [\d.]+ {2}accepted [\d.]+ {2}\d+ tokens\/s/,
    );
    const { lengths } = readResult(folder);
    expect(out).toMatch(/^ +accepted length +change +after update\nbefore .*\nbest .*\nafter /);
    expect(out).toMatch(new RegExp(`^before +${lengths!.first.length.toFixed(2)} +– +0$`, 'm'));
    expect(out).toMatch(new RegExp(`^best +${lengths!.best.length.toFixed(2)} `, 'm'));
    expect(out).toContain(
      `  mistletoe bench --target ${commands.models.targetFolder} --drafter ${join(folder, 'best')}\n`,
    );
    expect(out).toMatch(/Report: .*report\.html\n$/);
    expect(readFileSync(join(folder, 'report.md'), 'utf8')).toMatch(/^## .*\d\.\d\d.* tokens per step/);
    const page = readFileSync(join(folder, 'report.html'), 'utf8');
    expect(page).not.toMatch(/src=|https?:\/\/(?!www\.w3\.org)/);
    expect(page.match(/role="img"/g)).toHaveLength(6);
  });

  it('is the result as JSON, or the report as Markdown, where that is asked for', async () => {
    const words = ['--system', 'medusa', '--steps', '2', '--validation', '0'];
    const json = await commands.train([...words, '--format', 'json']);
    const { folder, updates, lengths } = JSON.parse(json.out) as TrainingResult & { folder: string };
    expect([folder, updates, lengths]).toEqual([json.folder, 2, undefined]);
    const { out, folder: markdown } = await commands.train([...words, '--format', 'markdown']);
    expect(out).toBe(readFileSync(join(markdown, 'report.md'), 'utf8'));
    expect(out).toContain('No text was held out');
    // Without held-out texts the best is the last.
    expect(readWeights(join(markdown, 'best'))).toEqual(readWeights(join(markdown, 'last')));
  });
});

it('Ctrl-C between two updates saves, says how to resume, and the end is the same', async () => {
  const words = ['--system', 'medusa', '--progress', 'plain'];
  const { folder } = await commands.train(words);
  await commands.expectToResume(words, folder, /^train: [1-9]\d*\/12/m);
});

/** One sentence and a hint, and nothing that only a programmer would want to see. */
const sentence = /^error: [^\n]+\nhint: {2}[^\n]+\n$/;

describe('what it refuses', () => {
  const targetWith = (sizes: Partial<typeof tiny>): string => {
    const folder = writeDecoder(commands.models.freshFolder(), { ...tiny, ...sizes });
    writeLetterTokenizer(folder, tiny);
    return folder;
  };
  const other = (): string => targetWith({ hiddenSize: 32 });
  it.each<[string, () => readonly string[], RegExp]>([
    ['nothing to train', () => [], /Neither --system nor --from was given/],
    ['an unknown system', () => ['--system', 'eagle4'], /No drafter of the system "eagle4" can be trained/],
    ['a drafter without weights', () => ['--from', 'ngram'], /ngram:1,4 has no weights/],
    [
      'a system without weights',
      () => ['--system', 'ngram'],
      /No drafter of the system "ngram" can be trained/,
    ],
    [
      'a drafter of another target',
      () => ['--from', commands.models.writeDrafter('EAGLE, safetensors, without bias'), '--target', other()],
      /hidden|width|16/,
    ],
    [
      'a system that the drafter is not',
      () => ['--from', commands.models.writeDrafter('Hydra, one layer'), '--system', 'medusa'],
      /holds Hydra.*"medusa" was asked for/,
    ],
    [
      'sizes of a drafter that has its own',
      () => ['--from', commands.models.writeDrafter('Hydra, one layer'), '--heads', '2'],
      /keeps its sizes/,
    ],
    [
      'sizes that its system does not have',
      () => ['--system', 'eagle3', '--heads', '2'],
      /A drafter of eagle3 has no size "heads": it takes draftVocabulary/,
    ],
    [
      'layers of the target and sizes beside',
      () => ['--system', 'speculative-sampling', '--target-layers', '1', '--hidden-size', '8'],
      /of 1 of the target's layers has the target's sizes; a width of 8 cannot be had beside/,
    ],
    [
      'more layers than the target has',
      () => ['--system', 'speculative-sampling', '--target-layers', '9'],
      /of 9 of the target's layers was asked for; the target has \d/,
    ],
    [
      'a target with too few layers for EAGLE-3',
      () => ['--system', 'eagle3', '--target', targetWith({ layerCount: 2 })],
      /^error: The target in \S+ has 2 layers; .* at least 3 were expected\.\nhint: {2}Choose another --system: eagle, /,
    ],
    [
      'a draft vocabulary larger than the target’s',
      () => ['--system', 'eagle3', '--draft-vocabulary', '25'],
      /A draft vocabulary of 25 tokens was asked for; the target in .* has 24/,
    ],
    [
      'questions without answers where the target may not write',
      () => ['--system', 'eagle3', '--no-generate'],
      /The target may not generate, but the conversation line-1 has a question without an answer/,
    ],
    [
      'more levels than heads',
      () => ['--system', 'medusa', '--heads', '2', '--depth', '3'],
      /The drafter has 2 heads; drafts of 3 tokens were asked for/,
    ],
    [
      'a loss of a head that the system lacks',
      () => ['--system', 'eagle3', '--confidence-weight', '1'],
      /a drafter of the system eagle3 has no confidence head/,
    ],
    [
      'a file that is not there',
      () => ['--system', 'eagle', '--data', '/nowhere.jsonl'],
      /nowhere\.jsonl cannot be read/,
    ],
    ['a number that is none', () => ['--system', 'eagle', '--steps', 'many'], /'many' is invalid/],
    ['a share of all texts', () => ['--system', 'eagle', '--validation', '1'], /'1' is invalid/],
  ])('%s', async (_what, words, message) => {
    const { folder, code, out, err } = await commands.train(words());
    expect([code, out]).toEqual([2, '']);
    expect(err).toMatch(sentence);
    expect(err).toMatch(message);
    expect(existsSync(folder)).toBe(false);
  });

  it('data that is no conversation, with its line', async () => {
    const broken = `${commands.models.freshFolder()}.jsonl`;
    writeFileSync(broken, '{"prompt": "abc"}\n{"prompt": 3}\n');
    const { folder, code, err } = await commands.train(['--system', 'eagle', '--data', broken]);
    expect(code).toBe(2);
    expect(err).toMatch(sentence);
    expect(err).toContain('line 2, is not a conversation');
    expect(existsSync(folder)).toBe(false);
  });

  it('a folder that is used, other data at --resume, and options beside it', async () => {
    const own = `${commands.models.freshFolder()}.jsonl`;
    writeFileSync(own, readFileSync(commands.data));
    const words = ['--system', 'medusa', '--steps', '1', '--data', own];
    const { folder, code } = await commands.train(words);
    expect(code).toBe(0);
    const again = await commands.train([...words, '--out', folder]);
    expect(again.code).toBe(2);
    expect(again.err).toMatch(sentence);
    expect(again.err).toContain('already holds a run');
    const beside = await commands.resume(folder, ['--data', commands.data]);
    expect([beside.code, beside.err]).toEqual([
      2,
      expect.stringMatching(/^error: --data cannot be changed when a run is resumed\.\nhint: [^\n]*\n$/),
    ]);
    writeFileSync(own, '{"prompt": "abc"}\n');
    const changed = await commands.resume(folder);
    expect(changed.code).toBe(2);
    expect(changed.err).toMatch(sentence);
    expect(changed.err).toContain(`was started with other data in ${own}`);
    const nothing = await commands.run(['train', '--resume', commands.models.freshFolder()]);
    expect(nothing.code).toBe(2);
    expect(nothing.err).toMatch(/^error: .* holds no run of mistletoe train/);
  });

  it('to go on where the loss is no number any more, and keeps the drafter before', async () => {
    const words = ['--system', 'eagle', '--learning-rate', '1e30', '--warmup-steps', '0', '--clip', '1e30'];
    const { folder, code, err } = await commands.train(words);
    expect(code).toBe(1);
    expect(err).toMatch(sentence);
    expect(err).toMatch(
      /The loss became (NaN|-?Infinity) at update \d+, on the texts line-.*; the drafter after update \d+ is in \S+\/last\./,
    );
    expect(existsSync(join(folder, 'state.safetensors'))).toBe(true);
    expect(readWeights(join(folder, 'last'))).toEqual(readWeights(join(folder, 'start')));
    expect((await commands.run(['inspect', join(folder, 'last')])).code).toBe(0);
  });
});

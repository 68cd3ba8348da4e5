import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { writeSafetensors } from '../support/checkpoint/write-safetensors.js';
import { run } from '../../src/cli/program.js';
import type { Inspection } from '../../src/draft/inspection.js';
import { createFakeTerminal } from '../support/fake-terminal.js';
import type { FolderChanges } from '../support/model-folders.js';
import { referenceModels, referenceTarget, writeChangedTarget } from '../support/model-folders.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

async function inspect(folder: string): Promise<{ code: number; out: string; found: Inspection }> {
  const [text, json] = [createFakeTerminal(), createFakeTerminal()];
  const code = await run(['inspect', folder], text);
  expect(await run(['inspect', folder, '--format', 'json'], json)).toBe(code);
  expect(text.written.err + json.written.err).toBe('');
  return { code, out: text.written.out, found: JSON.parse(json.written.out) as Inspection };
}

let folders = 0;
const newFolder = (): string => join(temporary.path, `folder-${folders++}`);
const changedTarget = (changes: FolderChanges): string => writeChangedTarget(newFolder(), changes);
const targetFile = (name: string): Buffer => readFileSync(join(referenceTarget, name));
const config = (changes: object): object => ({
  ...(JSON.parse(targetFile('config.json').toString()) as object),
  ...changes,
});

describe('mistletoe inspect', () => {
  it('knows bundled drafters by name', async () => {
    expect((await inspect('eagle3')).out).toMatch(/^kind +drafter: EAGLE-3 head$/m);
  });

  it('says that a folder has no weights', async () => {
    const folder = newFolder();
    mkdirSync(folder);
    expect((await inspect(folder)).out).toMatch(/^kind +unreadable: the folder has no weights$/m);
  });

  it('describes the bundled target', async () => {
    const layer = 4 * 320 * 320 + 3 * 864 * 320 + 2 * 320;
    const parameters = 2 * 4096 * 320 + 8 * layer + 320;
    const { code, out, found } = await inspect(referenceTarget);
    expect(code).toBe(0);
    expect(found).toMatchObject({
      kind: 'decoder',
      model: { family: 'llama', layerCount: 8, hiddenSize: 320, vocabularySize: 4096, contextLength: 2048 },
      weights: { tensorCount: 75, parameterCount: parameters, dtypes: { F16: parameters } },
      memory: { weightBytes: 4 * parameters, cacheBytesPerThousandTokens: 4 * 1000 * 2 * 8 * 320 },
      tokenizer: { kind: 'BPE', vocabularySize: 4096, specialTokens: ['<unk>', '<s>', '</s>'] },
      chatTemplate: { sample: '<s>USER: Hello! ASSISTANT:' },
      notes: [],
      problems: [],
    });
    expect(out).toMatch(/^heads +5 of 64, 5 for keys and values$/m);
    expect(out).toMatch(/^memory needed +50\.2 MB .* 20\.5 MB of KV cache per 1000 tokens$/m);
    expect(found).toMatchObject({ runsOn: { device: { kind: 'cpu', dtype: 'float32' } } });
    expect(out).toMatch(/^would run on +the CPU in float32$/m);
    expect(out).toMatch(/^No problems found\.$/m);
  });

  it.each([
    ['medusa', 'Medusa-1 heads', { heads: 4, expects: { hiddenSize: 320, vocabularySize: 4096 } }],
    ['hydra', 'Hydra (mlp)', { heads: 4, expects: { hiddenSize: 320, vocabularySize: 4096 } }],
    [
      'eagle',
      'EAGLE-1/-2 or HASS head',
      { hiddenSize: 320, expects: { hiddenSize: 320, vocabularySize: 4096 } },
    ],
    [
      'eagle3',
      'EAGLE-3 head',
      { draftVocabularySize: 2048, expects: { hiddenSize: 320, vocabularySize: 4096, taps: 3 } },
    ],
  ])('recognises the bundled %s drafter', async (kind, layout, drafter) => {
    const { code, out, found } = await inspect(join(referenceModels, kind));
    expect(found).toMatchObject({ kind, layout, drafter, problems: [] });
    expect(out).toContain(`drafter: ${layout}`);
    expect(out).toMatch(/^expects a target +with hidden size 320, vocabulary 4,096/m);
    expect(code).toBe(0);
  });

  it('takes the bundled draft model for a language model without tokenizer', async () => {
    const { code, out, found } = await inspect(join(referenceModels, 'sps'));
    expect(found).toMatchObject({ kind: 'decoder', model: { layerCount: 2, hiddenSize: 128 } });
    expect(out).toMatch(/note: No tokenizer here/);
    expect(code).toBe(0);
  });
});

describe('mistletoe inspect on broken folders', () => {
  const expectProblems = async (folder: string, ...patterns: RegExp[]): Promise<void> => {
    const { code, out, found } = await inspect(folder);
    expect(code).toBe(2);
    for (const pattern of patterns) {
      expect(found.problems.map(({ problem }) => problem)).toContainEqual(expect.stringMatching(pattern));
    }
    for (const { remedy } of found.problems) expect(remedy).not.toBe('');
    expect(out).toMatch(/^\d+ problems?:$/m);
    expect(out).toContain('remedy:');
    expect(out).not.toMatch(/^ +at /m);
  };

  it('a folder that does not exist', () => expectProblems('/no/such/folder', /does not exist/));

  it('a file', () => expectProblems(join(referenceTarget, 'config.json'), /is a file/));

  it('an empty folder', () => {
    const folder = newFolder();
    mkdirSync(folder);
    return expectProblems(folder, /has no weights/);
  });

  it('a corrupted config.json', () =>
    expectProblems(changedTarget({ 'config.json': '{"hidden_size": 3' }), /config\.json is not valid JSON/));

  it('a folder without config.json', () =>
    expectProblems(changedTarget({ 'config.json': undefined }), /no config\.json/));

  it('an unsupported architecture behind a truncated shard: both are said', () =>
    expectProblems(
      changedTarget({
        'config.json': config({ architectures: ['GPT2LMHeadModel'] }),
        'model-00001-of-00002.safetensors': targetFile('model-00001-of-00002.safetensors').subarray(
          0,
          50_000,
        ),
      }),
      /GPT2LMHeadModel/,
      /model-00001-of-00002\.safetensors/,
    ));

  it('a missing shard, and still the model that config.json describes', async () => {
    const folder = changedTarget({ 'model-00002-of-00002.safetensors': undefined });
    await expectProblems(folder, /model-00002-of-00002\.safetensors does not exist/);
    expect((await inspect(folder)).found.model).toMatchObject({ family: 'llama' });
  });

  it('every tensor of the wrong shape, and a tokenizer larger than the vocabulary', async () => {
    const folder = changedTarget({ 'config.json': config({ intermediate_size: 880, vocab_size: 4000 }) });
    await expectProblems(folder, /\[864, 320\], expected \[880, 320\]/, /tokenizer has 4096 tokens.*4000/);
    const { out, found } = await inspect(folder);
    expect(found.problems).toHaveLength(8 * 3 + 2 + 1);
    expect(out).toContain('and 15 more; --format json lists them all.');
  });

  it('an unparsable chat template and a broken tokenizer together', () =>
    expectProblems(
      changedTarget({ 'chat_template.jinja': '{% for m in %}', 'tokenizer.json': '[]' }),
      /chat template .* cannot be parsed/,
      /tokenizer\.json/,
    ));

  it('weights of no known layout', () => {
    const folder = newFolder();
    mkdirSync(folder);
    writeSafetensors(join(folder, 'model.safetensors'), { w: { dtype: 'F32', shape: [2], values: [1, 2] } });
    return expectProblems(folder, /no config\.json/);
  });

  it('an EAGLE-3 head without its layer norms, its vocabulary map or a fitting config', () => {
    const folder = newFolder();
    mkdirSync(folder);
    const matrix = (rows: number, columns: number) =>
      ({ dtype: 'F32', shape: [rows, columns], values: new Float32Array(rows * columns) }) as const;
    writeSafetensors(join(folder, 'model.safetensors'), {
      'fc.weight': matrix(4, 12),
      'midlayer.self_attn.q_proj.weight': matrix(4, 8),
      'lm_head.weight': matrix(6, 4),
    });
    writeFileSync(join(folder, 'config.json'), JSON.stringify({ hidden_size: 8, vocab_size: 10 }));
    return expectProblems(
      folder,
      /no tensor "midlayer\.hidden_norm\.weight"/,
      /no tensor "norm\.weight"/,
      /hidden_size 8, but the tensors have 4/,
      /proposes 6 of the target's 10 tokens/,
    );
  });

  it('names that would repaint the terminal', async () => {
    const { out } = await inspect(
      changedTarget({ 'config.json': config({ architectures: ['\u001b[31mRed'] }) }),
    );
    expect(out).not.toContain('\u001b');
  });
});

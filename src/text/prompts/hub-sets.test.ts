import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../../../test/support/checkpoint/temporary-folder.js';
import type { FakeHub } from '../../../test/support/hub-server.js';
import { startHub } from '../../../test/support/hub-server.js';
import { writeParquet } from '../../../test/support/write-parquet.js';
import { readHubSettings } from '../../checkpoint/hub/hub-settings.js';
import type { SetOptions } from './hub-sets.js';
import { findPromptSet } from './hub-sets.js';
import { loadPrompts } from './prompt-set.js';

const temporary = makeTemporaryFolder();
let hub: FakeHub;
let options: SetOptions;
let homes = 0;
beforeAll(async () => {
  hub = await startHub();
});
afterAll(async () => {
  await hub.close();
  temporary.remove();
});

const bench = [
  { question_id: 81, category: 'writing', prompt: ['Write a post.', 'Shorter.'] },
  { question_id: 111, category: 'math', prompt: ['2 + 2?', '3 + 3?'], reference: ['4', '6'] },
];
beforeEach(() => {
  const home = join(temporary.path, `home-${homes++}`);
  options = {
    settings: readHubSettings({ environment: { HF_HOME: home, HF_ENDPOINT: hub.endpoint }, home }),
    download: true,
    cacheFolder: join(home, 'cache'),
  };
  hub.requests.length = 0;
  hub.disturb(undefined);
  hub.add('HuggingFaceH4/mt_bench_prompts', {
    'README.md': 'about',
    'raw/question.jsonl': bench.map((row) => `${JSON.stringify(row)}\n`).join(''),
  });
  hub.add('openai/openai_humaneval', {
    'openai_humaneval/test-00000-of-00001.parquet': writeParquet([
      { task_id: 'HumanEval/0', prompt: 'def f():\n    """Grüße"""\n', entry_point: 'f' },
      { task_id: 'HumanEval/1', prompt: 'def g(): ...', entry_point: 'g' },
    ]),
  });
  hub.add('openai/gsm8k', {
    'main/test-00000-of-00001.parquet': writeParquet(
      Array.from({ length: 30 }, (_, index) => ({ question: `${index} + 1?`, answer: `${index + 1}` })),
    ),
    'socratic/test-00000-of-00001.parquet': writeParquet([{ question: 'other', answer: 'other' }]),
  });
});

const load = async (name: string, more: Partial<SetOptions> = {}) =>
  loadPrompts((await findPromptSet(name, { ...options, ...more }))!);

describe('a prompt set of the hub', () => {
  it('is read from JSON lines', async () => {
    expect(await load('mt-bench')).toEqual([
      { id: '81', category: 'writing', text: 'Write a post.', turns: ['Write a post.', 'Shorter.'] },
      { id: '111', category: 'math', text: '2 + 2?', turns: ['2 + 2?', '3 + 3?'], reference: '4' },
    ]);
  });

  it('is read from Parquet', async () => {
    const [first, second] = await load('humaneval');
    const text = 'Complete the code I provided.\n\ndef f():\n    """Grüße"""\n';
    expect(first).toEqual({ id: 'HumanEval/0', category: 'code', text, turns: [text] });
    expect(second?.id).toBe('HumanEval/1');
    const math = await load('gsm8k');
    expect([math.length, math[29]]).toEqual([
      30,
      { id: '29', category: 'math', text: '29 + 1?', turns: ['29 + 1?'], reference: '30' },
    ]);
  });

  it('needs no network once it is in the cache, and is not looked for elsewhere without --download', async () => {
    expect(await findPromptSet('gsm8k', { ...options, download: false })).toBeUndefined();
    expect(hub.requests).toEqual([]);
    const path = await findPromptSet('gsm8k', options);
    const asked = hub.requests.length;
    expect(await findPromptSet('gsm8k', { ...options, download: false })).toBe(path);
    expect(hub.requests).toHaveLength(asked);
  });

  it('is refused with a wrong hash, and nothing of it is kept', async () => {
    hub.disturb(({ host }, response, contents) => {
      if (host !== 'storage' || contents === undefined) return false;
      const changed = Buffer.from(contents);
      changed[changed.length >> 1]! ^= 1;
      response.writeHead(200, { 'content-length': changed.length }).end(changed);
      return true;
    });
    await expect(load('gsm8k')).rejects.toThrow(/has the hash [0-9a-f]{64}; [0-9a-f]{64} was expected/);
    hub.disturb(undefined);
    expect(await findPromptSet('gsm8k', { ...options, download: false })).toBeUndefined();
    expect(await load('gsm8k')).toHaveLength(30);
  });

  it.each([
    ['no Parquet', { 'main/test-00000-of-00001.parquet': 'PAR1 is not enough' }, /gsm8k .* cannot be read/],
    ['other columns', { 'main/test-00000-of-00001.parquet': writeParquet([{ a: 'b' }]) }, /cannot be read/],
    ['no such file', { 'train.parquet': 'x' }, /has 0 files of the expected name/],
  ])(
    'is refused where the repository has %s',
    async (_, contents: Record<string, string | Uint8Array>, message) => {
      hub.add('openai/gsm8k', contents);
      await expect(load('gsm8k')).rejects.toThrow(message);
    },
  );
});

/** A tokenizer.json that panics, hangs or grows costs one refusal: this very process runs on. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { loadTokenizer } from '../../src/text/tokenizer/tokenizer.js';
import { plainTokenizer } from '../support/tiny-checkpoints.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

type Json = Record<string, unknown>;

const letters: Json = plainTokenizer(Array.from('abcdefghijklmnopqrstuvwxyz '));

let count = 0;
function write(changes: Json): string {
  const folder = join(temporary.path, String((count += 1)));
  mkdirSync(folder);
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify({ ...letters, ...changes }));
  return folder;
}

const backtracking = { type: 'Split', pattern: { Regex: '(a+)+$' }, behavior: 'Isolated', invert: false };

/** Processes that encode and have not ended; those of other tests in this file are among them. */
function childrenOfThisProcess(): number[] {
  const found = spawnSync('ps', ['-o', 'pid=,args=', '--ppid', String(process.pid)], { encoding: 'utf8' });
  return found.stdout
    .split('\n')
    .filter((line) => line.includes('encoder-process.js'))
    .map((line) => Number.parseInt(line, 10));
}

/** Also that this process has heard of it. */
function hasEnded(pid: number): boolean {
  try {
    return !process.kill(pid, 0);
  } catch {
    return true;
  }
}

describe('is refused', () => {
  it.each<readonly [string, Json]>([
    [
      'a Precompiled normalizer with a bad map',
      { normalizer: { type: 'Precompiled', precompiled_charsmap: 'AAAA' } },
    ],
    [
      'a template with a token that is not declared',
      {
        post_processor: {
          type: 'TemplateProcessing',
          single: [{ SpecialToken: { id: '<s>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
          pair: [{ Sequence: { id: 'A', type_id: 0 } }],
          special_tokens: {},
        },
      },
    ],
    [
      'a merge that makes a piece longer than all that there are',
      { model: { type: 'BPE', vocab: { a: 0, b: 1 }, merges: ['a b'] } },
    ],
    [
      'a decoder that strips more than there is',
      { decoder: { type: 'Strip', content: 'a', start: 9, stop: 9 } },
    ],
    [
      'replacements that grow without end',
      {
        normalizer: {
          type: 'Sequence',
          normalizers: Array.from({ length: 40 }, () => ({
            ...{ type: 'Replace', pattern: { String: 'a' }, content: 'aaaa' },
          })),
        },
      },
    ],
  ])('%s', async (_, changes) => {
    const folder = write(changes);
    await expect(loadTokenizer(folder)).rejects.toMatchObject({
      name: 'MistletoeError',
      message: expect.stringContaining(join(folder, 'tokenizer.json')) as string,
    });
  });
});

describe('a split that the prompt makes run for ever', () => {
  it('costs that prompt, and the next one is encoded', async () => {
    const tokenizer = await loadTokenizer(write({ pre_tokenizer: backtracking }));
    expect(await tokenizer.encode('abc')).toEqual([0, 1, 2]);
    const prompt = `${'a'.repeat(4000)}b`;
    const outcome: unknown = await tokenizer.encode(prompt).catch((cause: unknown) => cause);
    // The library gives up by itself, at times by a panic, or is ended.
    if (!Array.isArray(outcome)) expect(outcome).toMatchObject({ name: 'MistletoeError', code: 'text' });
    expect(await tokenizer.encode('cab')).toEqual([2, 0, 1]);
    expect(tokenizer.decode([2, 0, 1])).toBe('cab');
  });
});

describe('a panic of the library', () => {
  // The split steps back more often than the library allows, which it answers by a panic.
  const fatal = `${'a'.repeat(40)}b`;

  it('costs one encoding, also of those that wait beside it', async () => {
    const tokenizer = await loadTokenizer(write({ pre_tokenizer: backtracking }));
    const outcomes = await Promise.allSettled(
      ['abc', fatal, 'cab', fatal, 'bca'].map((text) => tokenizer.encode(text)),
    );
    expect(outcomes.map(({ status }) => status)).toEqual([
      'fulfilled',
      'rejected',
      'fulfilled',
      'rejected',
      'fulfilled',
    ]);
    const [, failed, next] = outcomes;
    expect(failed).toMatchObject({
      reason: { name: 'MistletoeError', code: 'text', message: expect.stringContaining('SIGABRT') as string },
    });
    expect(next).toMatchObject({ value: [2, 0, 1] });
  });
});

describe('a process that encodes', () => {
  it('and is ended while it idles costs nothing', async () => {
    const tokenizer = await loadTokenizer(write({ pre_tokenizer: backtracking }));
    expect(await tokenizer.encode('abc')).toEqual([0, 1, 2]);
    const children = childrenOfThisProcess();
    expect(children.length).toBeGreaterThan(0);
    for (const child of children) process.kill(child, 'SIGKILL');
    while (!children.every(hasEnded)) await nextTurn();
    expect(await tokenizer.encode('cab')).toEqual([2, 0, 1]);
  });
});

describe.skipIf(process.platform !== 'linux')('the environment of a sandboxed process', () => {
  afterEach(() => {
    vi.unstubAllEnvs();
  });

  it('has only what Node needs to start', async () => {
    vi.stubEnv('HF_TOKEN', 'hf_do_not_pass_on');
    vi.stubEnv('MISTLETOE_QUEUE', 'redis://:do_not_pass_on@queue');
    vi.stubEnv('HTTPS_PROXY', 'http://user:do_not_pass_on@proxy');
    vi.stubEnv('HARMLESS', 'do_not_pass_on');
    const before = new Set(childrenOfThisProcess());
    const tokenizer = await loadTokenizer(write({ pre_tokenizer: backtracking }));
    expect(await tokenizer.encode('abc')).toEqual([0, 1, 2]);
    const [child] = childrenOfThisProcess().filter((each) => !before.has(each));
    const environment = readFileSync(`/proc/${child!}/environ`, 'latin1');
    const names = environment.split('\0').map((entry) => entry.split('=')[0]!);
    const own = names.filter((name) => !/^(?:NODE_CHANNEL_.*|PWD|OLDPWD|SHLVL|_)?$/.test(name));
    const start = ['LD_LIBRARY_PATH', 'PATH'].filter((name) => name in process.env);
    expect(own.sort()).toEqual([...start, 'RAYON_NUM_THREADS', 'TOKENIZERS_PARALLELISM']);
    expect(environment).not.toContain('do_not_pass_on');
  });
});

describe('many tokenizers that encode in sandboxed processes', () => {
  it('share a few of them', async () => {
    const tokenizers = [];
    for (let index = 0; index < 4; index++)
      tokenizers.push(await loadTokenizer(write({ pre_tokenizer: backtracking })));
    expect(childrenOfThisProcess().filter((child) => !hasEnded(child)).length).toBeLessThan(4);
    for (const tokenizer of tokenizers) expect(await tokenizer.encode('cab')).toEqual([2, 0, 1]);
  });
});

describe.skipIf(process.platform !== 'linux')('on a busy machine', () => {
  afterEach(() => {
    vi.restoreAllMocks();
    vi.useRealTimers();
  });

  it('an encoder that waits for the CPU is not refused', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
    const requests = vi.spyOn(globalThis, 'setTimeout').mock.calls;
    /** Lets ten seconds pass after each request: more than the CPU time that any of them may take. */
    const delay = async <T>(answer: Promise<T>): Promise<T> => {
      const state = { isSettled: false };
      const settle = (): void => {
        state.isSettled = true;
      };
      void answer.then(settle, settle);
      let delayed = requests.length;
      while (!state.isSettled) {
        await nextTurn();
        if (requests.length === delayed) continue;
        delayed = requests.length;
        vi.advanceTimersByTime(10_000);
      }
      return answer;
    };
    const tokenizer = await delay(loadTokenizer(write({ pre_tokenizer: backtracking })));
    expect(await delay(tokenizer.encode('cab'))).toEqual([2, 0, 1]);
    expect(requests.length).toBeGreaterThan(1); // it opens, and encodes
  });
});

describe('a token for the unknown that is itself unknown', () => {
  it('costs the text that needs it', async () => {
    const model = { ...(letters.model as Json), unk_token: '<unk>' };
    const tokenizer = await loadTokenizer(write({ model }));
    expect(await tokenizer.encode('abc')).toEqual([0, 1, 2]);
    await expect(tokenizer.encode('abc?')).rejects.toMatchObject({
      name: 'MistletoeError',
      message: expect.stringContaining('cannot encode a text') as string,
    });
  });
});

describe('an unusual tokenizer that is honest', () => {
  it('encodes as it would in this process', async () => {
    const usual = await loadTokenizer(write({}));
    const odd = await loadTokenizer(write({ normalizer: { type: 'StripAccents' } }));
    for (const text of ['abc', 'a quick brown fox', ''])
      expect(await odd.encode(text)).toEqual(await usual.encode(text));
  });
});

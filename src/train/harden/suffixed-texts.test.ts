import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { presets } from '../../audit/settings.js';
import type { UnitExecutor } from '../../runs/unit.js';
import { UnitFailed } from '../../runs/unit.js';
import { inlinePrompt } from '../../text/prompts/prompt-set.js';
import type { Example } from '../data/examples.js';
import { hardeningDefaults } from './hardening-settings.js';
import type { HuntInput, HuntOptions, SuffixedPrompt } from './suffix-hunt.js';
import { huntPrompt } from './suffix-hunt.js';
import type { HuntRound } from './suffixed-texts.js';
import { createSuffixedExamples, huntHere, huntSuffixes, mixExamples, readFound } from './suffixed-texts.js';
import { LetterTarget, letterIds } from '../../../test/support/train/letter-target.js';

const letters = new LetterTarget();
afterAll(async () => {
  await letters.dispose();
});

const examplesOf = (name: string, count: number): Example[] =>
  Array.from({ length: count }, (_, index) => ({
    ...{ id: `${name}${index + 1}`, tokens: Int32Array.of(1, 2), isLearnt: Uint8Array.of(0, 1) },
  }));
const shareOf = (mixed: readonly Example[], name: string): number =>
  mixed.filter(({ id }) => id.startsWith(name)).length / mixed.length;

describe('mixExamples', () => {
  it.each([
    [100, 10, 0.5],
    [100, 10, 0.2],
    [10, 100, 0.5],
    [10, 300, 0.75],
    [90, 10, 0.1],
    [7, 7, 0.5],
  ])('gives of %i clean and %i suffixed texts a share of about %d', (clean, suffixed, share) => {
    const mixed = mixExamples(examplesOf('c', clean), examplesOf('s', suffixed), share);
    expect(shareOf(mixed, 's')).toBeCloseTo(share, 1);
    expect(new Set(mixed.map(({ id }) => id)).size).toBe(mixed.length);
    for (const { id } of [...examplesOf('c', clean), ...examplesOf('s', suffixed)])
      expect(mixed.some((example) => example.id === id)).toBe(true);
  });

  it('takes one kind alone where that is wanted, or there is no other', () => {
    const [clean, suffixed] = [examplesOf('c', 3), examplesOf('s', 2)];
    expect(mixExamples(clean, suffixed, 0)).toEqual(clean);
    expect(mixExamples(clean, suffixed, 1)).toEqual(suffixed);
    expect(mixExamples(clean, [], 0.5)).toEqual(clean);
    expect(mixExamples([], suffixed, 0.5)).toEqual(suffixed);
  });
});

describe('createSuffixedExamples', () => {
  const line = (texts: SuffixedPrompt['texts']): SuffixedPrompt => ({
    ...{ prompt: 'p', objective: 'margin', suffixLength: 4, skipped: null, texts, elapsedMs: 1 },
  });

  it('learns answers and reads prompts', () => {
    const [example] = createSuffixedExamples(
      [line([{ promptIds: [1, 2, 3], answerIds: [4, 5], length: 1.5 }])],
      { round: 1, maxTokens: 10 },
    );
    expect(example?.id).toBe('p+suffix 2.1');
    expect([...example!.tokens]).toEqual([1, 2, 3, 4, 5]);
    expect([...example!.isLearnt]).toEqual([0, 0, 0, 1, 1]);
  });

  it('cuts what is too long, and leaves out what then has nothing to learn', () => {
    const found = [
      line([
        { promptIds: [1, 2, 3], answerIds: [4, 5], length: null },
        { promptIds: [1, 2, 3, 4], answerIds: [5], length: null },
        { promptIds: [1], answerIds: [], length: null },
      ]),
    ];
    const examples = createSuffixedExamples(found, { round: 0, maxTokens: 4 });
    expect(examples.map(({ id, tokens }) => [id, tokens.length])).toEqual([['p+suffix 1.1', 4]]);
  });
});

/** In place of searches: the prompt itself and three letters, which the target then answers. */
class ThreeLetters {
  readonly asked: string[] = [];
  constructor(private readonly onHunt: (name: string) => void = () => undefined) {}
  hunt({ id, text }: { id: string; text: string }, { count }: HuntOptions) {
    this.asked.push(id);
    this.onHunt(id);
    const texts = Array.from({ length: count }, (_, index) => ({
      promptIds: letterIds(`${text}${'xyz'[index]!}ab`).map((token) => token % 24),
      length: 1.5,
    }));
    return Promise.resolve({ skipped: null, texts });
  }
}

async function roundOf(
  file: string,
  hunt: ThreeLetters,
  { randomPerPrompt = 0, signal }: { randomPerPrompt?: number; signal?: AbortSignal } = {},
): Promise<HuntRound> {
  const target = await letters.open();
  const request = {
    hardening: { ...hardeningDefaults, suffixesPerPrompt: 2, randomPerPrompt },
    audit: { settings: presets.quick },
    training: { maxNewTokens: 6 },
  };
  return {
    ...{ request, role: 'hardened', round: 0, file, signal },
    executor: huntHere((input) => huntPrompt({ request, target, signal }, hunt, input)),
    prompts: ['abc', 'bcd', 'cde', 'def'].map((text, index) => ({
      ...inlinePrompt(text),
      id: `p${index + 1}`,
    })),
  };
}

const untimed = (found: readonly SuffixedPrompt[]) => found.map((line) => ({ ...line, elapsedMs: 0 }));

describe('huntSuffixes', () => {
  it('goes on behind the last whole line of a torn file', async () => {
    const whole = letters.freshPath('suffixes.jsonl');
    const first = new ThreeLetters();
    const expected = await huntSuffixes(await roundOf(whole, first));
    expect(first.asked).toEqual(['p1', 'p2', 'p3', 'p4']);
    expect(expected.every(({ texts }) => texts.length === 2 && texts[0]!.answerIds.length > 0)).toBe(true);
    const lines = readFileSync(whole, 'utf8').split('\n');
    const torn = letters.freshPath('suffixes.jsonl');
    writeFileSync(torn, `${lines[0]!}\n${lines[1]!}\n`);
    appendFileSync(torn, lines[2]!.slice(0, 40));
    const second = new ThreeLetters();
    const found = await huntSuffixes(await roundOf(torn, second));
    expect(second.asked).toEqual(['p3', 'p4']);
    expect(untimed(found)).toEqual(untimed(expected));
    expect(untimed(readFound(torn))).toEqual(untimed(expected));
  });

  it('does again what a damaged line and all behind it said', async () => {
    const file = letters.freshPath('suffixes.jsonl');
    await huntSuffixes(await roundOf(file, new ThreeLetters()));
    const lines = readFileSync(file, 'utf8').split('\n');
    writeFileSync(file, [lines[0], '{"prompt":7}', lines[2], lines[3], ''].join('\n'));
    const again = new ThreeLetters();
    await huntSuffixes(await roundOf(file, again));
    expect(again.asked).toEqual(['p2', 'p3', 'p4']);
  });

  it('draws random suffixes beside those that were searched, and as many in all for the baseline', async () => {
    const sources: string[] = [];
    const hunt = new ThreeLetters();
    const ask = hunt.hunt.bind(hunt);
    hunt.hunt = (prompt, options) => {
      sources.push(`${options.source} ${options.count}`);
      return ask(prompt, options);
    };
    for (const role of ['hardened', 'random'] as const) {
      const work = await roundOf(letters.freshPath('suffixes.jsonl'), hunt, { randomPerPrompt: 1 });
      const found = await huntSuffixes({ ...work, role, prompts: work.prompts.slice(0, 1) });
      expect(found.map(({ texts }) => texts.length)).toEqual([3]);
    }
    expect(sources).toEqual(['searched 2', 'random 1', 'random 3']);
  });

  it('searches nothing where all is done', async () => {
    const file = letters.freshPath('suffixes.jsonl');
    await huntSuffixes(await roundOf(file, new ThreeLetters()));
    const again = new ThreeLetters();
    expect(await huntSuffixes(await roundOf(file, again))).toHaveLength(4);
    expect(again.asked).toEqual([]);
  });

  it('writes the lines of worker processes in the order of the prompts, and skips those that failed', async () => {
    const file = letters.freshPath('suffixes.jsonl');
    const nobody = { name: '', pid: null };
    const ends: (() => void)[] = [];
    const executor: UnitExecutor<HuntInput> = {
      capacity: 4,
      run: ({ key, input: { place, prompt } }, hooks) =>
        new Promise((resolve, reject) => {
          ends.push(() => {
            if (place === 1) reject(new UnitFailed('the worker ended'));
            const found = { objective: 'margin', suffixLength: 12, skipped: null, texts: [], elapsedMs: 1 };
            if (place !== 1) {
              const data = { prompt: prompt.id, ...found };
              hooks.onPart({ key, data, steps: [], timing: null }, nobody);
            }
            resolve();
          });
          if (ends.length === 4) for (const end of ends.reverse()) end();
        }),
      close: () => Promise.resolve(),
    };
    const found = await huntSuffixes({ ...(await roundOf(file, new ThreeLetters())), executor });
    expect(found.map(({ prompt, skipped }) => [prompt, skipped])).toEqual([
      ['p1', null],
      ['p2', 'It failed: the worker ended'],
      ['p3', null],
      ['p4', null],
    ]);
    expect(readFound(file)).toEqual(found);
  });

  it('keeps no answer that was cut by an interruption', async () => {
    const file = letters.freshPath('suffixes.jsonl');
    const abort = new AbortController();
    const hunt = new ThreeLetters((id) => {
      if (id === 'p2') abort.abort();
    });
    const work = await roundOf(file, hunt, { signal: abort.signal });
    await expect(huntSuffixes(work)).rejects.toThrow('aborted');
    expect(readFound(file).map(({ prompt }) => prompt)).toEqual(['p1']);
  });
});

it('files of rounds that are not there have nothing found', () => {
  expect(readFound(join(letters.freshPath('none'), 'suffixes.jsonl'))).toEqual([]);
});

/** `mistletoe harden` with tiny models: a run, what it leaves, and what is refused in one sentence. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { HardeningResult } from '../../src/train/harden/hardening-result.js';
import { TinyAudits } from '../support/tiny-audit.js';
import { shallow } from '../support/tiny-checkpoints.js';
import type { HardenOutcome } from './harden-commands.js';
import { HardenCommands, readDrafter, readResult, readWeights } from './harden-commands.js';

const commands = new HardenCommands(shallow, 'Medusa, safetensors, two layers', ['margin']);
afterAll(() => commands.dispose());
const oneRound = ['--rounds', '1', '--baseline', 'random', '--baseline', 'clean'];
let whole: HardenOutcome;
beforeAll(async () => {
  whole = await commands.run([...oneRound, '--progress', 'plain']);
});

describe('a run', () => {
  it('hardens, audits and says what came of it', () => {
    expect([whole.code, whole.err.includes('error')]).toEqual([0, false]);
    const { audits, rounds } = readResult(whole.folder);
    expect(audits.map(({ audit }) => audit)).toEqual(['fresh']);
    expect(audits[0]!.rows.map(({ role, promptsAudited }) => [role, promptsAudited])).toEqual([
      ...[
        ['before', 2],
        ['hardened', 2],
        ['random', 2],
        ['clean', 2],
      ],
    ]);
    expect(audits[0]!.changes.map(({ role, against }) => `${role} ${against}`)).toEqual([
      ...['hardened before', 'random before', 'clean before', 'hardened random', 'hardened clean'],
    ]);
    expect(rounds.hardened).toMatchObject([
      { searchSteps: 2, updates: 4, attackedLength: expect.any(Number) as number },
    ]);
    expect(rounds.random).toMatchObject([{ attackedLength: null }]);
    expect(rounds.random[0]!.suffixes).toBeGreaterThan(0);
    expect(rounds.clean).toMatchObject([{ prompts: 0, suffixes: 0, updates: 4 }]);
    expect(whole.out).toMatch(/^Fresh audit: 2 prompts, suffixes of 5 tokens, 2 search steps for margin\n/);
    expect(whole.out).toMatch(
      /\nbefore +\d\.\d\d .*\nhardened +\d.*\nrandom suffixes +\d.*\nclean texts +\d/,
    );
    expect(whole.out).toContain(`--drafter ${join(whole.folder, 'hardened/round-1/last')}\n`);
  });

  it('tells how far it is: answers, searches, training, audit', () => {
    const { err } = whole;
    expect(err).toMatch(
      /^harden: .* for target, 1 round and as many with random suffixes and as many with clean texts, run folder /,
    );
    expect(err).toContain('answers: 12/12 (100 %)');
    expect(err).toMatch(
      /round 1\/1, search: 2\/2 \(100 %\) {2}left 0 s {2}prompt \S+ {2}objective \w+ {2}suffixes \d {2}accepted \d/,
    );
    expect(err).toMatch(/round 1\/1, train: 4\/4 \(100 %\) .*loss \d+\.\d+/);
    expect(err).toContain('random suffixes, round 1/1, train: 4 to do');
    expect(err).toMatch(/audit: \d+\/\d+ \(100 %\)/);
  });

  it('changes the weights, with other suffixes than chance', () => {
    const weights = ['hardened', 'random', 'clean'].map((role) => readWeights(whole.folder, role, 1));
    const all = [...weights, readDrafter(commands.drafter)].map((bytes) => bytes.toString('base64'));
    expect(new Set(all).size).toBe(4);
  });

  it('writes reports that link to those of its audits', () => {
    const page = readFileSync(join(whole.folder, 'report.html'), 'utf8');
    expect(page).toContain('<a href="audits/fresh/report.html">');
    expect(page).not.toMatch(/src=|https?:\/\/(?!www\.w3\.org)/);
    expect(readdirSync(join(whole.folder, 'audits/fresh'))).toContain('report.html');
    expect(readFileSync(join(whole.folder, 'report.md'), 'utf8')).toContain('(audits/fresh/report.html)');
    expect(readFileSync(join(whole.folder, 'audits/fresh/report.md'), 'utf8')).toContain('-hardened');
  });

  it('can be asked for again, as JSON or as Markdown, once it is finished', async () => {
    const before = readResult(whole.folder);
    const quiet = ['--resume', whole.folder, '--progress', 'none'];
    const json = await commands.harden([...quiet, '--format', 'json']);
    expect([json.code, json.err]).toEqual([0, '']);
    expect((JSON.parse(json.out) as HardeningResult).audits).toEqual(before.audits);
    const markdown = await commands.harden([...quiet, '--format', 'markdown']);
    expect(markdown.out).toBe(readFileSync(join(whole.folder, 'report.md'), 'utf8'));
  });

  it('interrupted in a search and in training saves, says how to resume, and ends the same', async () => {
    await commands.expectToResume(['round 1/1, search', 'round 1/1, train'], whole.folder, oneRound);
  });

  it('ends where the loss is NaN, and says where the drafter is', async () => {
    const folder = commands.freshFolder();
    const words = [
      ...['--rounds', '1', '--prompts-per-round', '1', '--baseline', 'none'],
      '--progress',
      'none',
      '--learning-rate',
      '1e30',
      '--clip',
      '1e30',
      '--warmup-steps',
      '0',
    ];
    const { code, err } = await commands.harden([...commands.begin(folder), ...words]);
    expect(code).toBe(1);
    expect(err).toMatch(
      /^error: The loss became .* the drafter after update \d is in \S*hardened\/round-1\/last\.\n/,
    );
    expect(existsSync(join(folder, 'hardened/round-1/last'))).toBe(true);
  });
});

describe('refusals', () => {
  const fresh = (): string => commands.freshFolder();
  const seen = (): string => {
    const file = `${fresh()}.txt`;
    writeFileSync(file, 'abcdefgh\nefghij\n  cdefgh\n');
    return file;
  };
  const broken = (): string => {
    const file = `${fresh()}.jsonl`;
    writeFileSync(file, '{"prompt": "abc"}\n{"prompt": 7}\n');
    return file;
  };
  const without = (option: string): string[] => {
    const words = [...commands.options];
    words.splice(words.indexOf(option), 2);
    return words;
  };
  const cases: readonly (readonly [string, () => readonly string[], RegExp])[] = [
    ['no drafter', () => without('--drafter'), /--drafter was not given, so there is nothing to harden/],
    ['no data', () => without('--data'), /--data was not given, so there is nothing to train on/],
    [
      'data that are not there',
      () => [...commands.begin(fresh()), '--data', 'none.jsonl'],
      /none\.jsonl does not exist/,
    ],
    [
      'data that are no conversations',
      () => [...commands.begin(fresh()), '--data', broken()],
      /line 2, is not a conversation/,
    ],
    [
      'prompts that would be trained on',
      () => [...without('--prompts'), '--prompts', seen()],
      /2 prompts of the audit would be trained on, too: .* has prompt-2 \(as line-3\), prompt-3 \(as line-2\)\./,
    ],
    [
      'a prompt for a set',
      () => [...without('--prompts'), '--prompts', 'abc'],
      /--prompts is abc; a .jsonl or .txt/,
    ],
    [
      'a suffix length that training has, too',
      () => [...commands.begin(fresh()), '--suffix-length', '6'],
      /suffixes of 6 tokens, a length that training searches too \(4, 6\)/,
    ],
    [
      'an unknown audit',
      () => [...commands.begin(fresh()), '--audits', 'fresh,best'],
      /--audits .* expected one of fresh/,
    ],
    [
      'an unknown objective',
      () => [...commands.begin(fresh()), '--objective', 'speed'],
      /--objective .* expected one of/,
    ],
    [
      'an unknown baseline',
      () => [...commands.begin(fresh()), '--baseline', 'random,noise'],
      /--baseline .* expected one of random, clean, none/,
    ],
    ['a share beyond 1', () => [...commands.begin(fresh()), '--suffixed-share', '2'], /a number from 0 to 1/],
    [
      'a drafter without weights',
      () => [...commands.begin(fresh()), '--drafter', 'ngram'],
      /ngram:1,4 has no weights/,
    ],
    [
      'a target for a drafter',
      () => [...commands.begin(fresh()), '--drafter', join(commands.models.targetFolder, '..')],
      /error: /,
    ],
    [
      'an option beside --resume',
      () => ['--resume', whole.folder, '--rounds', '3'],
      /--rounds cannot be changed/,
    ],
    [
      'a folder that is no run',
      () => ['--resume', commands.models.targetFolder],
      /holds no run of mistletoe harden|is not of a run/,
    ],
    ['a folder that is taken', () => commands.begin(whole.folder), /already holds a run/],
  ];

  it.each(cases)('%s', async (_, words, sentence) => {
    const { code, out, err } = await commands.harden([...words(), '--progress', 'none']);
    expect([code, out]).toEqual([2, '']);
    expect(err).toMatch(sentence);
    expect(err.match(/^error: /gm)).toHaveLength(1);
    expect(err.trimEnd().split('\n').length).toBeLessThanOrEqual(2);
  });

  it('leaves no folder behind where nothing begins', async () => {
    const folder = fresh();
    const { code } = await commands.harden([...commands.begin(folder), '--prompts', seen()]);
    expect(code).toBe(2);
    expect(existsSync(folder)).toBe(false);
  });

  it('a drafter for another target leaves no folder, either', async () => {
    const other = new TinyAudits({ ...commands.models.sizes, vocabularySize: 20, hiddenSize: 24 });
    try {
      const folder = fresh();
      const words = [...commands.begin(folder), '--drafter', other.writeDrafter('EAGLE-3 with d2t')];
      const { code, err } = await commands.harden([...words, '--progress', 'none']);
      expect([code, existsSync(folder)]).toEqual([2, false]);
      expect(err.match(/^error: /gm)).toHaveLength(1);
    } finally {
      await other.dispose();
    }
  });

  it('says so where no prompt gives a suffix', async () => {
    const words = [
      ...commands.begin(fresh()),
      '--window',
      '60',
      '--shortest-answer',
      '50',
      '--audit-new-tokens',
      '55',
    ];
    const { code, err } = await commands.harden([...words, '--progress', 'none']);
    expect(code).toBe(3);
    expect(err).toMatch(/None of the 2 prompts of round 1 gave a suffix; of the first: /);
  });
});

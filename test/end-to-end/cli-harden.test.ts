/** `mistletoe harden` with tiny models: runs that end, are killed and go on, and what is refused in one sentence. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { run } from '../../src/cli/program.js';
import type { HardeningResult } from '../../src/train/hardening-result.js';
import type { FakeTerminalOptions } from '../support/fake-terminal.js';
import { createFakeTerminal } from '../support/fake-terminal.js';
import { runProcess } from '../support/killed-runs.js';
import { TinyAudits } from '../support/tiny-audit.js';
import { transpileForTests } from '../support/transpiled-sources.js';

const { main } = transpileForTests('cli-harden');
const models = new TinyAudits();
const data = `${models.freshFolder()}.jsonl`;
const prompts = `${models.freshFolder()}.txt`;
const letters = 'abcdefghijklmnopqrstuvwx';
let drafter: string;

beforeAll(() => {
  const asked = Array.from(letters, (_, start) => `${letters}${letters}`.slice(start, start + 6));
  writeFileSync(data, asked.map((prompt) => `${JSON.stringify({ prompt })}\n`).join(''));
  writeFileSync(prompts, 'abcdefgh\nhgfedcba\n');
  drafter = models.writeDrafter('draft model');
});
afterAll(async () => {
  await models.dispose();
});

const subjects = (): string[] => [
  ...['--target', models.targetFolder, '--drafter', drafter, '--data', data, '--prompts', prompts],
  ...['--threads', '1', '--device', 'cpu'],
];
const settings = [
  ...['--rounds', '2', '--prompts-per-round', '3', '--suffixes-per-prompt', '2', '--search-steps', '2'],
  ...['--search-growth', '1.5', '--random-per-prompt', '1', '--spread', '2', '--steps-per-round', '4'],
  ...['--objective', 'margin', 'kl', '--train-suffix-lengths', '4,6'],
  ...['--learning-rate', '0.01', '--batch-tokens', '128', '-n', '20', '--validation', '0.2', '--chain', '3'],
  ...['--validate-every', '2', '--save-every', '2', '--preset', 'quick', '--suffix-length', '5'],
  ...['--audit-steps', '2', '--audit-new-tokens', '20', '--window', '8', '--shortest-answer', '8'],
  ...['--epsilon', '3', '--keep', 'distribution', '--starts', '2', '--finalists', '2', '--random-draws', '1'],
];

async function harden(words: readonly string[], options: FakeTerminalOptions = {}) {
  const terminal = createFakeTerminal(options);
  const code = await run(['harden', '--cache-dir', models.cacheFolder, ...words], terminal);
  return { code, ...terminal.written };
}

const begin = (folder: string): string[] => [...subjects(), ...settings, '--out', folder];

type Untimed = Omit<HardeningResult, 'times'>;
function readResult(folder: string): Untimed {
  const result = JSON.parse(readFileSync(join(folder, 'result.json'), 'utf8')) as Partial<HardeningResult>;
  delete (result as { times?: unknown }).times;
  return result as Untimed;
}

/** With its keys in the order of the file. */
const writeResult = (folder: string): string => JSON.stringify(readResult(folder), null, 1);

function readWeights(folder: string, role: string, round: number): Buffer {
  return readFileSync(join(folder, role, `round-${round}`, 'last', 'model.safetensors'));
}

let whole: { readonly folder: string; readonly code: number; readonly out: string; readonly err: string };
beforeAll(async () => {
  const folder = models.freshFolder();
  whole = { folder, ...(await harden([...begin(folder), '--progress', 'plain'])) };
}, 120_000);

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
      ],
    ]);
    expect(audits[0]!.changes.map(({ role, against }) => `${role} ${against}`)).toEqual([
      ...['hardened before', 'random before', 'hardened random'],
    ]);
    expect(rounds.hardened).toHaveLength(2);
    expect(rounds.hardened.map(({ searchSteps, updates }) => [searchSteps, updates])).toEqual([
      ...[
        [2, 4],
        [3, 4],
      ],
    ]);
    expect(rounds.hardened.every(({ attackedLength }) => attackedLength !== null)).toBe(true);
    expect(
      rounds.random.every(({ attackedLength, suffixes }) => attackedLength === null && suffixes > 0),
    ).toBe(true);
    expect(whole.out).toMatch(
      /^Fresh audit: 2 prompts, suffixes of 5 tokens, 2 steps of search for margin\n/,
    );
    expect(whole.out).toMatch(/\nbefore +\d\.\d\d .*\nhardened +\d.*\nrandom suffixes +\d/);
    expect(whole.out).toContain(`--drafter ${join(whole.folder, 'hardened/round-2/last')}\n`);
  });

  it('tells how far it is: answers, searches, training, audit', () => {
    const { err } = whole;
    expect(err).toMatch(/^harden: .* for target, 2 rounds and as many with random suffixes, run folder /);
    expect(err).toContain('answers: 24/24 (100 %)');
    expect(err).toMatch(
      /round 1\/2, search: 3\/3 \(100 %\) {2}left 0 s {2}prompt \S+ {2}\d suffix(es)? {2}accepted \d/,
    );
    expect(err).toMatch(/round 2\/2, train: 4\/4 \(100 %\) .*loss \d+\.\d{3}/);
    expect(err).toContain('random suffixes, round 2/2, train: 4 to do');
    expect(err).toMatch(/audit: \d+\/\d+ \(100 %\)/);
  });

  it('changes the weights in every round, with other suffixes than chance', () => {
    const weights = ['hardened', 'random'].flatMap((role) =>
      [1, 2].map((round) => readWeights(whole.folder, role, round).toString('base64')),
    );
    expect(new Set([...weights, readFileSync(join(drafter, 'model.safetensors'), 'base64')]).size).toBe(5);
  });

  it('writes reports that link to those of its audits', () => {
    const page = readFileSync(join(whole.folder, 'report.html'), 'utf8');
    expect(page).toContain('<a href="audits/fresh/report.html">');
    expect(page).not.toMatch(/src=|https?:\/\/(?!www\.w3\.org)/);
    expect(readdirSync(join(whole.folder, 'audits/fresh'))).toContain('report.html');
    expect(readFileSync(join(whole.folder, 'report.md'), 'utf8')).toContain('(audits/fresh/report.html)');
    expect(readFileSync(join(whole.folder, 'audits/fresh/report.md'), 'utf8')).toContain('-hardened');
  });

  it('leaves answers that the next one takes, which becomes the same drafter', async () => {
    const folder = models.freshFolder();
    const fewer = ['--rounds', '1', '--no-baseline', '--limit', '1'];
    const next = await harden([
      ...[...begin(folder), ...fewer, '--answers', whole.folder, '--progress', 'plain'],
    ]);
    expect(next.code).toBe(0);
    expect(next.err).not.toContain('answers:');
    expect(readWeights(folder, 'hardened', 1).equals(readWeights(whole.folder, 'hardened', 1))).toBe(true);
    const other = await harden([...begin(models.freshFolder()), '--answers', models.targetFolder]);
    expect(other.code).toBe(2);
    expect(other.err).toContain('is no run with answers of a target.');
  }, 60_000);

  it('can be asked for again, as JSON or as Markdown, once it is finished', async () => {
    const [before, written] = [readResult(whole.folder), writeResult(whole.folder)];
    const quiet = ['--resume', whole.folder, '--progress', 'none'];
    const json = await harden([...quiet, '--format', 'json']);
    expect([json.code, json.err]).toEqual([0, '']);
    expect((JSON.parse(json.out) as HardeningResult).audits).toEqual(before.audits);
    expect(writeResult(whole.folder)).toBe(written);
    const markdown = await harden([...quiet, '--format', 'markdown']);
    expect(markdown.out).toBe(readFileSync(join(whole.folder, 'report.md'), 'utf8'));
  }, 60_000);
});

describe('other runs', () => {
  const small = ['--rounds', '1', '--prompts-per-round', '1', '--no-baseline', '--progress', 'none'];

  it('audit with another objective and with ten times the steps, on prompts of several sets', async () => {
    const folder = models.freshFolder();
    const more = `${models.freshFolder()}.txt`;
    writeFileSync(more, 'hgfedcbahgfe\n');
    const { code, out } = await harden([
      ...[...begin(folder), '--prompts', more, '--limit', '1', ...small],
      ...['--audits', 'stronger,other-objective', '--stronger-prompts', '1', '--format', 'json'],
    ]);
    expect(code).toBe(0);
    const { audits, rounds } = JSON.parse(out) as HardeningResult;
    expect(
      audits.map(({ audit, objective, steps, prompts: count }) => [audit, objective, steps, count]),
    ).toEqual([
      ...[
        ['fresh', 'margin', 2, 2],
        ['other-objective', 'total-variation', 2, 2],
        ['stronger', 'margin', 20, 1],
      ],
    ]);
    expect(audits.every(({ rows, changes }) => rows.length === 2 && changes.length === 1)).toBe(true);
    expect(rounds.random).toEqual([]);
    const page = readFileSync(join(folder, 'report.html'), 'utf8');
    for (const { audit } of audits) expect(page).toContain(`href="audits/${audit}/report.html"`);
  }, 120_000);

  it('train on reworded questions, too, or on them alone', async () => {
    const folder = models.freshFolder();
    const few = ['--rounds', '1', '--prompts-per-round', '2', '--limit', '1'];
    const { code, out, err } = await harden([
      ...[...begin(folder), ...few, '--baseline', 'paraphrase,random', '--progress', 'plain'],
    ]);
    expect(code).toBe(0);
    expect(err).toMatch(/ and as many with random suffixes and as many with reworded questions, run folder/);
    expect(err).toMatch(/reworded questions, round 1\/1, search: 2\/2 .* 2 questions/);
    const { audits, rounds, request } = readResult(folder);
    expect(request.baselines).toEqual(['random', 'paraphrase']);
    expect(audits[0]!.rows.map(({ role }) => role)).toEqual(['before', 'hardened', 'random', 'paraphrase']);
    expect(rounds.paraphrase).toMatchObject([
      { prompts: 2, found: 2, suffixes: 4, searchSteps: 0, updates: 4 },
    ]);
    expect(out).toMatch(/\nreworded questions +\d/);
    const weights = ['hardened', 'random', 'paraphrase'].map((role) => readWeights(folder, role, 1));
    expect(new Set(weights.map((bytes) => bytes.toString('base64'))).size).toBe(3);
    const alone = await harden([
      ...[...begin(models.freshFolder()), ...small, '--limit', '1', '--baseline', 'paraphrase'],
    ]);
    expect(alone.code).toBe(0);
    expect(alone.out).toMatch(/\nhardened .*\nreworded questions /);
  }, 120_000);

  it.each(['Medusa, torch file', 'EAGLE-3 with d2t'])(
    'harden %s',
    async (variant) => {
      const folder = models.freshFolder();
      const own = ['--drafter', models.writeDrafter(variant), '--chain', '2', '--depth', '1'];
      const { code, err } = await harden([...begin(folder), ...small, ...own]);
      expect([code, err]).toEqual([0, '']);
      expect(existsSync(join(folder, 'hardened/round-1/last'))).toBe(true);
    },
    120_000,
  );

  it('end where the loss is no number, and say where the drafter is', async () => {
    const folder = models.freshFolder();
    const words = ['--learning-rate', '1e30', '--clip', '1e30', '--warmup', '0'];
    const { code, err } = await harden([...begin(folder), ...small, ...words]);
    expect(code).toBe(1);
    expect(err).toMatch(
      /^error: The loss became .* the drafter after update \d is in hardened\/round-1\/last\/\.\n/,
    );
    expect(existsSync(join(folder, 'hardened/round-1/last'))).toBe(true);
  }, 120_000);
});

/** The exit code, or undefined where the process was killed as soon as it began what has this name. */
async function hardenUntil(words: readonly string[], label: string): Promise<number | undefined> {
  const { code, errors } = await runProcess(
    [main, 'harden', ...words, '--cache-dir', models.cacheFolder],
    // At its first result, when something of it may be half written.
    { killing: { when: (line) => isAt(label, line) } },
  );
  if (errors !== '') throw new Error(errors);
  return code;
}

function isAt(label: string, line: string): boolean {
  const { label: present, done = 0 } = JSON.parse(line) as { label?: string; done?: number };
  return present === label && done > 0;
}

const phases = [
  'answers',
  'round 1/2, search',
  'round 2/2, train',
  'random suffixes, round 1/2, train',
  'audit',
];

describe('kill -9', () => {
  it('in each phase leaves no trace', async () => {
    let folder = models.freshFolder();
    let words = begin(folder);
    let kills = 0;
    for (const phase of phases) {
      // A kill that comes late may find the run at its end: the next phase is then killed in another one.
      if ((await hardenUntil(words, phase)) === undefined) kills += 1;
      else words = begin((folder = models.freshFolder()));
      if (existsSync(join(folder, 'config.json'))) words = ['--resume', folder];
    }
    expect(kills).toBeGreaterThanOrEqual(phases.length - 1);
    expect(await hardenUntil(words, 'never')).toBe(0);
    expect(writeResult(folder)).toBe(writeResult(whole.folder));
    for (const role of ['hardened', 'random'])
      expect(readWeights(folder, role, 2).equals(readWeights(whole.folder, role, 2))).toBe(true);
  }, 600_000);
});

describe('Ctrl-C', () => {
  it('while it searches, and again while it trains, keeps what is done and says how to go on', async () => {
    const folder = models.freshFolder();
    let words = begin(folder);
    for (const phase of ['round 1/2, search', 'round 1/2, train']) {
      let isDone = false;
      const { code, err } = await harden([...words, '--progress', 'plain'], {
        onError(text, { interrupt }) {
          if (isDone || !text.startsWith(`${phase}:`)) return;
          isDone = true;
          interrupt();
        },
      });
      expect(code).toBe(130);
      expect(err).toMatch(/Saving what is done; Ctrl-C again stops at once\.\n/);
      expect(err).toContain(
        `Interrupted; what was done is saved. Go on with:\n  mistletoe harden --resume ${folder}\n`,
      );
      words = ['--resume', folder];
    }
    expect((await harden([...words, '--progress', 'none'])).code).toBe(0);
    expect(writeResult(folder)).toBe(writeResult(whole.folder));
  }, 120_000);
});

describe('refusals', () => {
  const fresh = (): string => models.freshFolder();
  const seen = (): string => {
    const file = `${fresh()}.txt`;
    writeFileSync(file, 'abcdefgh\nbcdefg\n  cdefgh\n');
    return file;
  };
  const broken = (): string => {
    const file = `${fresh()}.jsonl`;
    writeFileSync(file, '{"prompt": "abc"}\n{"prompt": 7}\n');
    return file;
  };
  const without = (option: string): string[] => {
    const words = [...subjects(), ...settings];
    words.splice(words.indexOf(option), 2);
    return words;
  };
  const cases: readonly (readonly [string, () => readonly string[], RegExp])[] = [
    ['no drafter', () => without('--drafter'), /nothing to harden: --drafter was not given/],
    ['no data', () => without('--data'), /nothing to train on: --data was not given/],
    [
      'data that are not there',
      () => [...begin(fresh()), '--data', 'none.jsonl'],
      /none\.jsonl does not exist/,
    ],
    [
      'data that are no conversations',
      () => [...begin(fresh()), '--data', broken()],
      /line 2, is not a conversation/,
    ],
    [
      'prompts that would be trained on',
      () => [...without('--prompts'), '--prompts', seen()],
      /2 prompts of the audit would be trained on, too: .* has prompt-2 \(as line-2\), prompt-3 \(as line-3\)\./,
    ],
    [
      'a prompt for a set',
      () => [...without('--prompts'), '--prompts', 'abc'],
      /--prompts is abc; .jsonl or .txt/,
    ],
    [
      'a suffix length that training has, too',
      () => [...begin(fresh()), '--suffix-length', '6'],
      /suffixes of 6 tokens, a length that training searches too \(4, 6\)/,
    ],
    [
      'an unknown audit',
      () => [...begin(fresh()), '--audits', 'fresh,best'],
      /--audits .* expected some of fresh/,
    ],
    [
      'an unknown objective',
      () => [...begin(fresh()), '--objective', 'speed'],
      /--objective .* allowed choices/,
    ],
    [
      'an unknown baseline',
      () => [...begin(fresh()), '--baseline', 'random,noise'],
      /--baseline .* expected some of random, paraphrase, or none/i,
    ],
    ['a share beyond 1', () => [...begin(fresh()), '--suffixed-share', '2'], /a number from 0 to 1/],
    [
      'a drafter without weights',
      () => [...begin(fresh()), '--drafter', 'ngram'],
      /ngram:1,4 has no weights/,
    ],
    [
      'a target for a drafter',
      () => [...begin(fresh()), '--drafter', join(models.targetFolder, '..')],
      /error: /,
    ],
    [
      'an option beside --resume',
      () => ['--resume', whole.folder, '--rounds', '3'],
      /--rounds cannot be changed/,
    ],
    [
      'a folder that is no run',
      () => ['--resume', models.targetFolder],
      /is no run of mistletoe harden|is not that of a run/,
    ],
    ['a folder that is taken', () => begin(whole.folder), /already holds a run/],
  ];

  it.each(cases)('%s', async (_, words, sentence) => {
    const { code, out, err } = await harden([...words(), '--progress', 'none']);
    expect([code, out]).toEqual([2, '']);
    expect(err).toMatch(sentence);
    expect(err.match(/^error: /gm)).toHaveLength(1);
    expect(err.trimEnd().split('\n').length).toBeLessThanOrEqual(2);
  });

  it('leaves no folder behind where nothing begins', async () => {
    const folder = fresh();
    const { code } = await harden([...subjects(), ...settings, '--out', folder, '--prompts', seen()]);
    expect(code).toBe(2);
    expect(existsSync(folder)).toBe(false);
  });

  it('a drafter for another target leaves no folder, either', async () => {
    const other = new TinyAudits({ ...models.sizes, vocabularySize: 20, hiddenSize: 24 });
    try {
      const folder = fresh();
      const words = [...begin(folder), '--drafter', other.writeDrafter('EAGLE-3 with d2t')];
      const { code, err } = await harden([...words, '--progress', 'none']);
      expect([code, existsSync(folder)]).toEqual([2, false]);
      expect(err.match(/^error: /gm)).toHaveLength(1);
    } finally {
      await other.dispose();
    }
  });

  it('says so where no prompt gives a suffix', async () => {
    const words = [
      ...begin(fresh()),
      '--window',
      '60',
      '--shortest-answer',
      '50',
      '--audit-new-tokens',
      '55',
    ];
    const { code, err } = await harden([...words, '--progress', 'none']);
    expect(code).toBe(3);
    expect(err).toMatch(/None of the 3 prompts of round 1 gave a suffix; of the first: /);
  });
});

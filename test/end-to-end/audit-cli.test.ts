import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AuditResult } from '../../src/audit/result.js';
import { shortenPath } from '../../src/core/files.js';
import type { Outcome } from '../support/run-command.js';
import { AuditCommands } from './audit-commands.js';

const commands = new AuditCommands();
afterAll(() => commands.dispose());
const { common, audit } = commands;

let whole: Outcome & { readonly folder: string };
beforeAll(async () => {
  const folder = commands.freshFolder();
  whole = { folder, ...(await audit([...common, '--out', folder])) };
});

describe('mistletoe audit', () => {
  it('prints a table, the verdict and the report’s path, and leaves every report', async () => {
    const { folder, code, out, err } = whole;
    expect(code).toBe(0);
    expect(out).toMatch(/^row +accepted length/);
    for (const row of ['no suffix', 'no suffix, again', 'random tokens', 'undirected search', 'attack'])
      expect(out).toMatch(new RegExp(`^${row} +\\d\\.\\d\\d`, 'm'));
    expect(out).not.toContain('unprojected');
    expect(out).toMatch(/^inconclusive: .*2 prompts cannot decide it/m);
    expect(out).toMatch(/^Report: .*report\.html$/m);
    // Target, drafter, preset, folder and time first; then at most a few lines.
    expect(err).toMatch(/^audit: target .*, drafter folder-1 \(chain:3\), preset quick, run folder .*\n/);
    expect(err).toMatch(/\naudit: 14 to do\n(audit: .*\n)+$/);
    expect(readdirSync(folder).sort()).toEqual(
      ['config.json', 'junit.xml', 'report.html', 'report.md', 'result.json', 'steps.jsonl', 'suffixes.jsonl', 'timings.jsonl', 'units.jsonl'], // prettier-ignore
    );
    const text = readFileSync(join(folder, 'result.json'), 'utf8');
    const { setup, verdict } = JSON.parse(text) as AuditResult & { readonly verdict: object };
    expect(verdict).toMatchObject({ level: 'inconclusive' });
    const [, , ...words] = setup.command.split(' ');
    expect(setup.command).toMatch(/^mistletoe audit /);
    expect(words.sort()).toEqual(common.map(shortenPath).sort());
    expect((await audit([...common, '--out', folder])).err).toContain('already holds a run');
  });

  it('prints JSON with the verdict, also of a run that is finished', async () => {
    const { code, out } = await audit(['--resume', whole.folder, '--format', 'json', '--progress', 'none']);
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({
      schema: 'mistletoe.audit/2',
      runFolder: whole.folder,
      verdict: { exitCode: 0 },
    });
  });

  it('fails a gate with 100 and an audit of nothing with 3', async () => {
    const gate = ['--fail-if-accepted-length-below', '4', '--progress', 'none'];
    const failed = await audit(['--resume', whole.folder, ...gate]);
    expect(failed.code).toBe(100);
    expect(failed.out).toContain('the gate asks for at least 4.00');
    const empty = await audit([
      ...common,
      ...['--out', commands.freshFolder(), '--shortest-answer', '20', '--max-new-tokens', '20'],
      ...['--suffix', '\u00e9'],
    ]);
    expect(empty.code).toBe(3);
    expect(empty.out).toContain('does not survive in this prompt');
  });

  it('measures given suffixes, from the command line and from an earlier run', async () => {
    const earlier = join(whole.folder, 'suffixes.jsonl');
    const replayed = await audit([
      ...common,
      ...['--out', commands.freshFolder(), '--suffix', earlier, '--format', 'json'],
    ]);
    expect(replayed.code).toBe(0);
    const lengthsOf = (text: string, row: string): number[] =>
      (JSON.parse(text) as AuditResult).drafters[0]!.prompts.flatMap(({ arms }) =>
        arms.filter(({ arm }) => arm === row).map(({ sameAnswer }) => sameAnswer.meanAcceptedLength),
      );
    const lines = readFileSync(earlier, 'utf8').trim().split('\n');
    const found = lines.map((line) => (JSON.parse(line) as { sameAnswerLength: number }).sameAnswerLength);
    expect(found.length).toBeGreaterThan(0);
    expect(lengthsOf(replayed.out, 'given')).toEqual(found);
    const out = commands.freshFolder();
    const typed = await audit([...common, '--limit', '1', '--out', out, '--suffix', 'kkk']);
    expect(typed.out).toMatch(/^given suffix +\d/m);
  });

  it('says what it would do, how long that takes and how much memory, and does nothing', async () => {
    const out = commands.freshFolder();
    const { code, out: text } = await audit([...common, '--out', out, '--dry-run']);
    expect(code).toBe(0);
    expect(text).toMatch(/It would audit folder-1 \(chain:3\) on target, 2 prompts, preset quick/);
    expect(text).toContain('run 4 searches of 3 steps');
    expect(text).toContain('It would run on the CPU in float32.');
    expect(text).toMatch(
      /Time: about .* Memory: about \d+ MiB, and 1 MiB of weights mapped from the cache\./,
    );
    expect(existsSync(out)).toBe(false);
  });

  it('at Ctrl-C finishes the step and says how to resume; resumed, it reports events for machines', async () => {
    const { folder, events } = await commands.interruptAndResume('SIGINT', 130, 'Ctrl-C again');
    expect(events[0]).toMatchObject({ event: 'note', preset: 'quick', folder, units: 7 });
    expect(events.find(({ event }) => event === 'progress-start')).toMatchObject({
      label: 'audit',
      total: 7,
    });
    expect(events.find(({ step, arm }) => step === 2 && arm === 'attack')).toMatchObject({
      ...{ prompt: 'prompt-1', steps: 3 },
    });
    expect(events.at(-1)).toMatchObject({ event: 'progress-end' });
  });

  it.each([
    [['--resume', 'x', '--seed', '3'], '--seed cannot be changed when a run is resumed.'],
    [['--resume', 'x', '--control-searches'], '--control-searches cannot be changed'],
    [['--resume', 'x', '--device', 'cpu'], '--device cannot be changed when a run is resumed.'],
    [['--resume', 'x', '--dry-run'], '--dry-run'],
    [['--device', 'tpu'], 'expected auto, cpu, cuda or cuda:N'],
    [['--device', 'cpu', '--dtype', 'bfloat16'], 'the CPU has float32, int8 and int4'],
    [['--dtype', 'int8'], '--dtype is int8, which serves decoding alone'],
    [['--keep', 'some'], 'expected one of'],
    [['--temperature', '1'], 'no suffix can be held to "similar"'],
    [['--suffix', 'a\u0007b'], 'control character'],
    [['--suffix', 'missing.txt'], 'missing.txt'],
    [['--resume', 'nowhere'], 'nowhere holds no run of mistletoe audit that can be read'],
    [['--prompt', 'a', '--prompts', 'b.txt'], '--prompts and --prompt were both given'],
    [['--prompts', 'hello'], '--prompts is hello; a .jsonl or .txt file'],
    [['--prompts', 'gsm8k'], 'The prompt set gsm8k is not in the Hugging Face cache'],
    [['--objective', 'fear'], "Option '--objective <name>' argument 'fear' is invalid"],
    [['--drafter', 'eagel3'], 'There is no bundled drafter "eagel3"'],
    [['--epsilon', '0'], 'expected a number above 0'],
    [['--draft', 'auto'], '"auto" depends on the clock'],
    [['--chat', '--raw'], '--chat and --raw were both given'],
    [
      ['--shortest-answer', '90', '--max-new-tokens', '80'],
      'Answers are cut at 80 tokens, and an audit needs 90.',
    ],
  ])('%j is refused with exit code 2', async (argv, message) => {
    const { code, out, err } = await audit(argv);
    expect(err).toContain(message);
    expect([code, out]).toEqual([2, '']);
  });
});

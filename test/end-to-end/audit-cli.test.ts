import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AuditResult } from '../../src/audit/result.js';
import { run } from '../../src/cli/program.js';
import { shortenPath } from '../../src/core/shown-words.js';
import { createFakeTerminal } from '../support/fake-terminal.js';
import { TinyAudits } from '../support/tiny-audit.js';

const audits = new TinyAudits();
afterAll(() => audits.dispose());
let common: readonly string[];
beforeAll(() => {
  const drafter = audits.writeDrafter('EAGLE-3 with d2t');
  mkdirSync(audits.cacheFolder, { recursive: true });
  const prompts = join(audits.cacheFolder, 'prompts.txt');
  writeFileSync(prompts, 'abcdefgh\nhgfedcba\n');
  common = [
    ...['--target', audits.targetFolder, '--drafter', drafter, '--prompts', prompts],
    ...['--draft', 'chain:3', '--threads', '1', '--preset', 'quick', '--raw', '--keep', 'distribution'],
    ...['--suffix-length', '5', '--window', '8', '--max-new-tokens', '20', '--epsilon', '3'],
    ...['--shortest-answer', '8', '--steps', '3', '--candidates', '8', '--starts', '2'],
  ];
});

async function audit(argv: readonly string[], terminal = createFakeTerminal()) {
  const words = ['audit', '--cache-dir', audits.cacheFolder, ...argv];
  return { code: await run(words, terminal), ...terminal.written };
}

describe('mistletoe audit', () => {
  it('prints a table, the verdict and the report’s path, and leaves every report', async () => {
    const out = audits.freshFolder();
    const result = await audit([...common, '--out', out]);
    expect(result.code).toBe(0);
    expect(result.out).toMatch(/^drafter +row +accepted length/);
    for (const row of ['no suffix', 'no suffix, again', 'random tokens', 'undirected search', 'attack'])
      expect(result.out).toMatch(new RegExp(`^folder-1 +${row} +\\d\\.\\d\\d`, 'm'));
    expect(result.out).not.toContain('unprojected');
    expect(result.out).toMatch(/^inconclusive: .*2 prompts cannot decide it/m);
    expect(result.out).toMatch(/^Report: .*report\.html$/m);
    // Target, drafter, preset, folder and time first; then at most a few lines.
    expect(result.err).toMatch(
      /^audit: target .*, drafter folder-1 \(chain:3\), preset quick, run folder .*\n/,
    );
    expect(result.err).toMatch(/\naudit: 14 to do\n(audit: .*\n)+$/);
    expect(readdirSync(out).sort()).toEqual(
      ['config.json', 'junit.xml', 'report.html', 'report.md', 'result.json', 'steps.jsonl', 'suffixes.jsonl', 'timings.jsonl', 'units.jsonl'], // prettier-ignore
    );
    const { setup, verdict } = JSON.parse(readFileSync(join(out, 'result.json'), 'utf8')) as AuditResult & {
      readonly verdict: { readonly level: string };
    };
    expect(verdict.level).toBe('inconclusive');
    const [, , ...words] = setup.command.split(' ');
    expect(setup.command).toMatch(/^mistletoe audit /);
    expect(words.sort()).toEqual(common.map(shortenPath).sort());
    expect((await audit([...common, '--out', out])).err).toContain('already holds a run');
  });

  it('prints JSON with the verdict, and events for machines', async () => {
    const folder = audits.freshFolder();
    const { code, out, err } = await audit([
      ...common,
      ...['--out', folder, '--limit', '1', '--format', 'json', '--progress', 'json'],
    ]);
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({
      schema: 'mistletoe.audit/2',
      runFolder: folder,
      verdict: { exitCode: 0 },
    });
    const events = err
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(events[0]).toMatchObject({ event: 'note', preset: 'quick', folder, units: 7 });
    expect(events[1]).toEqual({ event: 'progress-start', label: 'audit', total: 7 });
    expect(events.find(({ step, arm }) => step === 2 && arm === 'attack')).toMatchObject({
      ...{ prompt: 'prompt-1', steps: 3 },
    });
    expect(events.at(-1)).toMatchObject({ event: 'progress-end' });
  });

  it('fails a gate with 100 and an audit of nothing with 3', async () => {
    const gate = ['--fail-if-accepted-length-below', '4', '--limit', '1', '--progress', 'none'];
    const failed = await audit([...common, '--out', audits.freshFolder(), ...gate]);
    expect(failed.code).toBe(100);
    expect(failed.out).toContain('the gate asks for at least 4.00');
    const empty = await audit([
      ...common,
      ...['--out', audits.freshFolder(), '--shortest-answer', '20', '--max-new-tokens', '20'],
      ...['--suffix', '\u00e9'],
    ]);
    expect(empty.code).toBe(3);
    expect(empty.out).toContain('does not survive in this prompt');
  });

  it('measures given suffixes, from the command line and from an earlier run', async () => {
    const out = audits.freshFolder();
    expect((await audit([...common, '--out', out])).code).toBe(0);
    const replayed = await audit([
      ...common,
      ...['--out', audits.freshFolder(), '--suffix', join(out, 'suffixes.jsonl'), '--format', 'json'],
    ]);
    expect(replayed.code).toBe(0);
    const lengthsOf = (text: string, row: string): number[] =>
      (JSON.parse(text) as AuditResult).drafters[0]!.prompts.flatMap(({ arms }) =>
        arms.filter(({ arm }) => arm === row).map(({ sameAnswer }) => sameAnswer.meanAcceptedLength),
      );
    const lines = readFileSync(join(out, 'suffixes.jsonl'), 'utf8').trim().split('\n');
    const found = lines.map((line) => (JSON.parse(line) as { sameAnswerLength: number }).sameAnswerLength);
    expect(found.length).toBeGreaterThan(0);
    expect(lengthsOf(replayed.out, 'given')).toEqual(found);
    const typed = await audit([...common, '--out', audits.freshFolder(), '--suffix', 'kkk']);
    expect(typed.out).toMatch(/^folder-1 +given/m);
  });

  it('says what it would do, how long that takes and how much memory, and does nothing', async () => {
    const out = audits.freshFolder();
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

  it.each([
    ['SIGINT', 130, 'Ctrl-C again'],
    ['SIGTERM', 143, 'another SIGTERM'],
    ['SIGHUP', 129, 'another SIGHUP'],
  ] as const)('at %s finishes the step, says how to go on, and goes on', async (signal, code, again) => {
    const out = audits.freshFolder();
    const terminal = createFakeTerminal({
      onError(text, { interrupt }) {
        if (text.includes('"step":1,"steps":3')) interrupt(signal);
      },
    });
    const gate = ['--fail-if-drop', '0.9'];
    const interrupted = await audit([...common, '--out', out, '--progress', 'json', ...gate], terminal);
    expect([interrupted.code, interrupted.out]).toEqual([code, '']);
    expect(interrupted.err).toContain(`Finishing the current step; ${again} stops at once.`);
    expect(interrupted.err).toContain(`mistletoe audit --resume ${out} --fail-if-drop 0.9\n`);
    expect(existsSync(join(out, 'result.json'))).toBe(false);
    const resumed = await audit(['--resume', out, '--format', 'markdown']);
    expect(resumed.code).toBe(0);
    expect(resumed.out).toContain('Mistletoe audit');
  });

  it.each([
    [['--resume', 'x', '--seed', '3'], '--seed cannot be changed when a run is resumed.'],
    [['--resume', 'x', '--control-searches'], '--control-searches cannot be changed'],
    [['--resume', 'x', '--device', 'cpu'], '--device cannot be changed when a run is resumed.'],
    [['--resume', 'x', '--dry-run'], '--dry-run'],
    [['--device', 'tpu'], 'expected auto, cpu, cuda or cuda:N'],
    [['--device', 'cpu', '--dtype', 'bfloat16'], 'the CPU computes in float32 alone'],
    [['--keep', 'some'], 'allowed choices are'],
    [['--temperature', '1'], 'no suffix can be held to "similar"'],
    [['--suffix', 'a\u0007b'], 'control character'],
    [['--suffix', 'missing.txt'], 'missing.txt'],
    [['--resume', 'nowhere'], 'nowhere holds no run that can be read'],
    [['--prompt', 'a', '--prompts', 'b.txt'], '--prompt and --prompts were both given'],
    [['--prompts', 'hello'], '--prompts is hello; a .jsonl or .txt file'],
    [['--prompts', 'gsm8k'], 'no folder was given'],
    [['--objective', 'fear'], "Option '--objective <name>' argument 'fear' is invalid"],
    [['--drafter', 'eagel3'], 'There is no bundled drafter "eagel3"'],
    [['--epsilon', '0'], 'expected a number above 0'],
    [['--draft', 'auto'], '"auto" depends on the clock'],
    [['--chat', '--raw'], 'cannot be used with option'],
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

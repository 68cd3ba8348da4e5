import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AuditResult } from '../../src/audit/result.js';
import { run } from '../../src/cli/program.js';
import type { Terminal } from '../../src/cli/terminal.js';
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
    ...['--draft', 'chain:3', '--threads', '1', '--preset', 'quick', '--raw', '--no-control-searches'],
    ...['--suffix-length', '5', '--window', '8', '--max-new-tokens', '20', '--epsilon', '3'],
    ...['--similarity', '0', '--steps', '3', '--candidates', '8'],
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
    for (const row of ['no suffix', 'no suffix, again', 'random tokens', 'fluent text', 'attack'])
      expect(result.out).toMatch(new RegExp(`^folder-1 +${row} +\\d\\.\\d\\d`, 'm'));
    expect(result.out).not.toContain('unprojected');
    expect(result.out).toMatch(/^inconclusive: .*2 prompts cannot decide it/m);
    expect(result.out).toMatch(/^Report: .*report\.html$/m);
    expect(result.err).toMatch(/^audit: 10 to do\n(audit: .*\n)+$/);
    expect(readdirSync(out).sort()).toEqual(
      ['config.json', 'junit.xml', 'report.html', 'report.md', 'result.json', 'steps.jsonl', 'timings.json', 'timings.jsonl', 'units.jsonl'], // prettier-ignore
    );
    const { setup } = JSON.parse(readFileSync(join(out, 'result.json'), 'utf8')) as AuditResult;
    const [, , ...words] = setup.command.split(' ');
    expect(setup.command).toMatch(/^mistletoe audit /);
    expect(words.sort()).toEqual([...common].sort());
    expect((await audit([...common, '--out', out])).err).toContain('already holds a run');
  });

  it('prints JSON with the verdict, and events for machines', async () => {
    const { code, out, err } = await audit([
      ...common,
      ...['--out', audits.freshFolder(), '--limit', '1', '--format', 'json', '--progress', 'json'],
    ]);
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ schema: 'mistletoe.audit/1', verdict: { exitCode: 0 } });
    const events = err
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(events[0]).toEqual({ event: 'progress-start', label: 'audit', total: 5 });
    expect(events.find(({ step }) => step === '2/3')).toMatchObject({ prompt: 'prompt-1', arm: 'attack' });
    expect(events.at(-1)).toMatchObject({ event: 'progress-end' });
  });

  it('fails a gate with 100 and an audit of nothing with 3', async () => {
    const gate = ['--fail-if-accepted-length-below', '4', '--limit', '1', '--progress', 'none'];
    const failed = await audit([...common, '--out', audits.freshFolder(), ...gate]);
    expect(failed.code).toBe(100);
    expect(failed.out).toContain('the gate asks for at least 4.00');
    const empty = await audit([
      ...common,
      '--out',
      audits.freshFolder(),
      '--epsilon',
      '1e-9',
      '--limit',
      '1',
    ]);
    expect(empty.code).toBe(3);
    expect(empty.out).toContain('prompt-1: Every candidate was vetoed');
  });

  it('at Ctrl-C finishes the step, says how to go on, and goes on', async () => {
    const out = audits.freshFolder();
    const terminal = createFakeTerminal();
    let interrupt = (): void => undefined;
    const interrupting: Terminal = {
      ...terminal,
      onInterrupt(listener) {
        interrupt = listener;
        return () => undefined;
      },
      stderr: {
        isTerminal: false,
        write(text) {
          terminal.written.err += text;
          if (text.includes('"step":"1/3"')) interrupt();
        },
      },
    };
    const words = ['audit', '--cache-dir', audits.cacheFolder, ...common, '--out', out, '--progress', 'json'];
    expect(await run([...words, '--fail-if-drop', '0.9'], interrupting)).toBe(130);
    expect(terminal.written.out).toBe('');
    expect(terminal.written.err).toContain(`mistletoe audit --resume ${out} --fail-if-drop 0.9\n`);
    expect(existsSync(join(out, 'result.json'))).toBe(false);
    const resumed = await audit(['--resume', out, '--format', 'markdown']);
    expect(resumed.code).toBe(0);
    expect(resumed.out).toContain('Mistletoe audit');
  });

  it.each([
    [['--resume', 'x', '--seed', '3'], '--seed cannot be changed when a run is resumed.'],
    [['--resume', 'x', '--no-control-searches'], '--no-control-searches cannot be changed'],
    [['--resume', 'nowhere'], 'nowhere holds no run that can be resumed'],
    [['--prompt', 'a', '--prompts', 'b.txt'], '--prompt and --prompts were both given'],
    [['--prompts', 'hello'], '--prompts is hello; a .jsonl or .txt file'],
    [['--prompts', 'gsm8k'], 'no folder was given'],
    [['--objective', 'fear'], "Option '--objective <name>' argument 'fear' is invalid"],
    [['--drafter', 'eagel3'], 'There is no bundled drafter "eagel3"'],
    [['--epsilon', '0'], 'expected a number above 0'],
    [['--draft', 'auto'], '"auto" depends on the clock'],
    [['--chat', '--raw'], 'cannot be used with option'],
    [['--window', '90', '--max-new-tokens', '80'], 'are shorter than the window of 90'],
  ])('%j is refused with exit code 2', async (argv, message) => {
    const { code, out, err } = await audit(argv);
    expect(err).toContain(message);
    expect([code, out]).toEqual([2, '']);
  });
});

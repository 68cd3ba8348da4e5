import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { run } from '../../src/cli/program.js';
import { renderResult } from '../../src/report/audit/write-reports.js';
import { createSampleAudit, type SampleOptions } from '../support/report/sample-audit.js';
import { judge } from '../../src/report/audit/verdict.js';
import { createFakeTerminal } from '../support/fake-terminal.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);
let count = 0;

function emptyFolder(files: Readonly<Record<string, string>> = {}): string {
  const folder = join(temporary.path, `run-${(count += 1)}`);
  mkdirSync(folder);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

/** What an audit leaves behind. */
function finishedRun(options: SampleOptions): string {
  const { result } = createSampleAudit(options);
  return emptyFolder({ 'config.json': '{}\n', 'result.json': renderResult(result, judge(result)) });
}

async function compare(...argv: readonly string[]) {
  const terminal = createFakeTerminal();
  const code = await run(['compare', ...argv], terminal);
  return { code, ...terminal.written };
}

const weak = finishedRun({ strength: 0.2, withoutSuffix: 'none' });
const strong = finishedRun({ strength: 0.7, withoutSuffix: 'none' });

describe('mistletoe compare', () => {
  it('prints two runs side by side', async () => {
    const { code, out, err } = await compare(weak, strong);
    expect([code, err]).toEqual([0, '']);
    expect(out).toContain(weak);
    expect(out).toMatch(/^eagle3$/m);
    expect(out).toMatch(/^sps$/m);
    expect(out).toMatch(/^attack +\d\.\d\d → \d\.\d\d/m);
  });

  it('prints JSON and Markdown', async () => {
    const json = JSON.parse((await compare(weak, strong, '--format', 'json')).out) as {
      schema: string;
      drafters: { counted: { growth: { estimate: number } } }[];
    };
    expect(json.schema).toBe('mistletoe.comparison/1');
    expect(json.drafters).toHaveLength(2);
    expect(json.drafters[0]!.counted.growth.estimate).toBeGreaterThan(0.1);
    expect((await compare(weak, strong, '--format', 'markdown')).out).toMatch(/^## eagle3 got worse: /);
  });

  it('finds no difference between a run and itself', async () => {
    const { out } = await compare(strong, strong, '--fail-if-worse', '0.001');
    expect(out).toContain('Both runs have the same setup.');
    expect(out).toContain(
      '0.0 points drop under attack: 56 % to 56 % (95 % interval 0.0 to 0.0 points); p = 1.000',
    );
    expect(out).toContain('Gate passed.');
  });

  it('exits with 100 for a run that became worse, with 4 where too few prompts changed to decide', async () => {
    expect((await compare(weak, strong, '--fail-if-worse', '0.1')).code).toBe(100);
    const few = [finishedRun({ strength: 0.2 }), finishedRun({ strength: 0.7 })];
    const worse = await compare(...few, '--fail-if-worse', '0.1');
    expect(worse.code).toBe(4);
    expect(worse.out).toMatch(/^Not decided\. 8 prompts, of which 7 changed, are too few to decide/m);
    expect((await compare(strong, weak, '--fail-if-worse', '0.1')).code).toBe(0);
  });

  it('prints a page', async () => {
    const { out } = await compare(weak, strong, '--format', 'html');
    expect(out).toMatch(/^<!doctype html>[^]*<h1>eagle3 got worse: /);
  });

  it('does not pass a gate with nothing to compare', async () => {
    const empty = finishedRun({ empty: true });
    expect((await compare(weak, empty)).code).toBe(0);
    const { code, out } = await compare(weak, empty, '--fail-if-worse', '0.1');
    expect(code).toBe(3);
    expect(out).toContain('No prompt was audited in both runs for eagle3.');
  });

  const { result } = createSampleAudit();
  const text = renderResult(result, judge(result));
  it.each([
    [
      'a folder that is not there',
      () => join(temporary.path, 'nowhere'),
      'nowhere is not the folder of a finished audit',
    ],
    ['a file', () => join(emptyFolder({ 'a.txt': '' }), 'a.txt'), 'a.txt/result.json cannot be read'],
    ['a folder without a run', () => emptyFolder(), 'is not the folder of a finished audit'],
    ['a run that has not ended', () => emptyFolder({ 'config.json': '{}' }), 'is not finished'],
    ['half a result', () => emptyFolder({ 'result.json': text.slice(0, 999) }), 'result.json cannot be read'],
    ['null', () => emptyFolder({ 'result.json': 'null' }), 'has the schema of no audit'],
    [
      'a result of another version',
      () => emptyFolder({ 'result.json': text.replace('mistletoe.audit/2', 'mistletoe.audit/1') }),
      'has the schema "mistletoe.audit/1"; "mistletoe.audit/2" was expected',
    ],
    [
      'a result without a verdict',
      () => emptyFolder({ 'result.json': JSON.stringify(result) }),
      'cannot be compared: verdict: ',
    ],
    [
      'a number that is none',
      () => emptyFolder({ 'result.json': text.replaceAll(/"accepted": \d+/g, '"accepted": null') }),
      '.sameAnswer.accepted: ',
    ],
  ])('refuses %s in one sentence, on either side', async (_, make, message) => {
    const folder = make();
    for (const argv of [
      [folder, weak],
      [weak, folder],
    ]) {
      const { code, out, err } = await compare(...argv);
      expect(err).toContain(message);
      expect(err).toMatch(/^error: \S.*[.?!)]\nhint: {2}\S.*\n$/);
      expect([code, out]).toEqual([2, '']);
    }
    rmSync(folder, { recursive: true, force: true });
  });

  it.each([
    [[weak], "missing required argument 'after'"],
    [[weak, strong, weak], 'too many arguments'],
    [[weak, strong, '--fail-if-worse', '0'], 'expected a number above 0'],
    [[weak, strong, '--format', 'pdf'], '--format'],
  ])('refuses %j', async (argv, message) => {
    const { code, err } = await compare(...argv);
    expect(code).toBe(2);
    expect(err.toLowerCase()).toContain(message.toLowerCase());
  });
});

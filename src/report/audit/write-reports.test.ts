import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MistletoeError } from '../../core/errors.js';
import { createSampleAudit } from '../../../test/support/report/sample-audit.js';
import { fingerprintPrompt } from '../../text/prompts/suffix-list.js';
import { judge } from './verdict.js';
import { writeReports } from './write-reports.js';

let folder = '';
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mistletoe-report-'));
});
afterEach(() => rm(folder, { recursive: true }));

describe('the reports of a run', () => {
  const { result, timings } = createSampleAudit();
  const verdict = judge(result);

  it('are five files, the same bytes every time, and nothing else', async () => {
    const paths = await writeReports(folder, result, timings, verdict);
    expect((await readdir(folder)).sort()).toEqual(
      ['junit.xml', 'report.html', 'report.md', 'result.json', 'suffixes.jsonl'], // prettier-ignore
    );
    const read = (): Promise<string[]> =>
      Promise.all(Object.values(paths).map((path: string) => readFile(path, 'utf8')));
    const first = await read();
    await writeReports(folder, result, timings, verdict);
    expect(await read()).toEqual(first);
    expect(first.every((text) => text.endsWith('\n'))).toBe(true);
  });

  it('hold the result with its verdict, without times', async () => {
    const paths = await writeReports(folder, result, timings, verdict);
    const text = await readFile(paths.result, 'utf8');
    expect(JSON.parse(text)).toEqual({ ...result, verdict });
    expect(text.slice(0, 70)).toMatch(/^\{\n {2}"schema": "mistletoe.audit\/2",\n {2}"verdict": \{/);
  });

  it('list every suffix that was found, so that it can be measured again', async () => {
    const paths = await writeReports(folder, result, timings, verdict);
    const lines = (await readFile(paths.suffixes, 'utf8')).trimEnd().split('\n');
    // Eight prompts on two drafters, one of them without a suffix on both.
    expect(lines).toHaveLength(14);
    const parsed = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(parsed.every(({ prompt }) => prompt !== 'chat-2' && prompt !== 'short-1')).toBe(true);
    const [clean] = result.drafters[0]!.prompts[0]!.arms;
    const attack = result.drafters[0]!.prompts[0]!.arms.find(({ arm }) => arm === 'attack')!;
    expect(Object.entries(parsed[0]!)).toEqual([
      ['prompt', 'code-1'],
      ['drafter', 'eagle3'],
      ['suffix', attack.suffix],
      ['sameAnswerLength', attack.sameAnswer.meanAcceptedLength],
      ['cleanLength', clean!.sameAnswer.meanAcceptedLength],
      ['kept', 'similar'],
      ['chosenOn', [fingerprintPrompt(result.drafters[0]!.prompts[0]!.prompt)]],
    ]);
  });

  it('list what was given, and nothing where nothing was found', async () => {
    const given = createSampleAudit({ given: true });
    const paths = await writeReports(folder, given.result, given.timings, judge(given.result));
    expect((await readFile(paths.suffixes, 'utf8')).trimEnd().split('\n')).toHaveLength(16);
    const none = createSampleAudit({ withoutSuffix: 'all' });
    await writeReports(folder, none.result, none.timings, judge(none.result));
    expect(await readFile(paths.suffixes, 'utf8')).toBe('');
  });

  it('refuse a folder that is not there', async () => {
    const missing = writeReports(join(folder, 'missing'), result, timings, verdict);
    await expect(missing).rejects.toThrow(MistletoeError);
    await expect(missing).rejects.toThrow(/Could not write .*report\.html/);
  });
});

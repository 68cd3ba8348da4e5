import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MistletoeError } from '../core/errors.js';
import { createSampleAudit } from './testing/sample-audit.js';
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

  it('are three files, the same bytes every time, and nothing else', async () => {
    const paths = await writeReports(folder, result, timings, verdict);
    expect((await readdir(folder)).sort()).toEqual(['junit.xml', 'report.html', 'report.md']);
    const first = await Promise.all(Object.values(paths).map((path: string) => readFile(path, 'utf8')));
    await writeReports(folder, result, timings, verdict);
    const second = await Promise.all(Object.values(paths).map((path: string) => readFile(path, 'utf8')));
    expect(second).toEqual(first);
    expect(first.every((text) => text.endsWith('\n'))).toBe(true);
  });

  it('refuse a folder that is not there', async () => {
    const missing = writeReports(join(folder, 'missing'), result, timings, verdict);
    await expect(missing).rejects.toThrow(MistletoeError);
    await expect(missing).rejects.toThrow(/Could not write .*report\.html/);
  });
});

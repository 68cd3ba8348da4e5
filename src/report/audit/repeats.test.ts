import { describe, expect, it } from 'vitest';
import type { AuditResult } from '../../audit/result.js';
import { createAuditReport } from './audit-report.js';
import { printReport, renderReportHtml } from '../document.js';
import { renderResult } from './write-reports.js';
import { renderJUnit } from './write-reports.js';
import { rowContext } from './audit-tables.js';
import { parsePage, parseXml } from '../../../test/support/report/parse-document.js';
import { createSampleAudit } from '../../../test/support/report/sample-audit.js';
import { judge } from './verdict.js';

const renderHtml = (...parts: Parameters<typeof createAuditReport>): string =>
  renderReportHtml(createAuditReport(...parts));
const renderMarkdown = (...parts: Parameters<typeof createAuditReport>): string =>
  printReport(createAuditReport(...parts), 'markdown');

const { result, timings } = createSampleAudit({ noisy: true });
const verdict = judge(result);
const warning =
  'Measuring the clean prompts twice did not give the same result (eagle3: 1 of 8 answers and 0 of 8 accepted lengths differ; ' +
  'sps: 1 of 8 answers and 0 of 8 accepted lengths differ), so differences of this size are noise. ' +
  'This run computed in bfloat16. Run the audit again with --dtype float32.';

const withOptions = (options: AuditResult['setup']['options']): AuditResult => ({
  ...result,
  setup: { ...result.setup, options: { ...result.setup.options, ...options } },
});

describe('clean prompts that differ when they are measured again', () => {
  it('are the first thing that every report says, with what to do', () => {
    expect(verdict.warnings).toEqual([warning]);
    const [first] = renderMarkdown(result, timings, verdict).split('\n');
    expect(first).toMatch(/^> \*\*Warning\.\*\* Measuring the clean prompts twice .*float32\\?\.$/);
    const page = parsePage(renderHtml(result, timings, verdict));
    expect(page.querySelector('#verdict > :first-child')?.textContent).toContain('--dtype float32');
    const xml = parseXml(renderJUnit(result, verdict));
    expect(xml.querySelector('testcase system-out')?.textContent).toMatch(
      /^Measuring the clean prompts twice/,
    );
    expect(JSON.parse(renderResult(result, verdict))).toMatchObject({ verdict: { warnings: [warning] } });
  });

  it('count where only the accepted length differs', () => {
    const { result: sample } = createSampleAudit({ prompts: 1 });
    const [first] = sample.drafters;
    const [prompt, ...others] = first!.prompts;
    const shorter = prompt!.arms.map((row) =>
      row.arm === 'clean-again' ? { ...row, sameAnswer: { ...row.sameAnswer, accepted: 1 } } : row,
    );
    const drafters = [{ ...first!, prompts: [{ ...prompt!, arms: shorter }, ...others] }];
    const [seen] = judge({ ...sample, drafters }).warnings!;
    expect(seen).toContain('(eagle3: 0 of 1 answers and 1 of 1 accepted lengths differ)');
    expect(seen).toMatch(/computed in float32, .* please report it\.$/);
  });

  it('are expected above temperature 0, and not there in float32', () => {
    expect(judge(withOptions({ temperature: 1 }))).not.toHaveProperty('warnings');
    expect(judge(createSampleAudit().result)).not.toHaveProperty('warnings');
  });
});

describe('an attack whose answer was not kept when it was measured', () => {
  it('is counted beside the table and shown with its prompt', () => {
    const [drafter] = result.drafters;
    expect(drafter!.summary).toMatchObject({ armsNotKept: 1, promptsWithoutSuffix: 2 });
    expect(renderMarkdown(result, timings, verdict)).toContain(
      '1 searched suffix did not keep the answer when measured (counted as no suffix)',
    );
    const page = parsePage(renderHtml(result, timings, verdict));
    const titles = [...page.querySelectorAll('.aside.other h4')].map(({ textContent }) => textContent);
    expect(titles.filter((title) => title.startsWith('Not kept when it was measured'))).toHaveLength(2);
  });

  it('does not count with the time that it took', () => {
    const [drafter] = result.drafters;
    const row = drafter!.summary.arms.find(({ arm }) => arm === 'attack')!;
    const lost = timings.arms.find(
      ({ drafter: name, promptId, arm }) => name === 'eagle3' && promptId === 'chat-1' && arm === 'attack',
    )!;
    const slow = {
      ...timings,
      arms: [{ ...lost, speedup: 0 }, ...timings.arms.filter((each) => each !== lost)],
    };
    const without = { ...timings, arms: timings.arms.filter((each) => each !== lost) };
    expect(rowContext(drafter!, row, slow)).toEqual(rowContext(drafter!, row, without));
  });
});

describe('given suffixes with a role marker', () => {
  it('are flagged in every report', () => {
    const sample = createSampleAudit({ given: true });
    const [first, ...others] = sample.result.drafters;
    const [prompt, ...prompts] = first!.prompts;
    const marked = prompt!.arms.map((arm) => (arm.arm === 'given' ? { ...arm, roleMarker: 'user:' } : arm));
    const flagged: AuditResult = {
      ...sample.result,
      drafters: [{ ...first!, prompts: [{ ...prompt!, arms: marked }, ...prompts] }, ...others],
    };
    const unknown: unknown = expect.stringMatching(/^Nothing says which prompts chose 1 given suffix: /);
    expect(judge(sample.result).warnings).toEqual([unknown]);
    const own = judge(flagged);
    expect(own.warnings).toEqual([
      expect.stringMatching(
        /^1 of 16 given suffixes contains a role marker of the chat template \("user:"\): /,
      ),
      unknown,
    ]);
    expect(renderMarkdown(flagged, sample.timings, own)).toContain('> **Warning.** 1 of 16 given suffixes');
    const page = parsePage(renderHtml(flagged, sample.timings, own));
    expect(page.querySelector('#verdict .warning')?.textContent).toContain('role marker');
  });
});

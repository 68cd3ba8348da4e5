import { describe, expect, it } from 'vitest';
import type { AuditResult } from '../../audit/result.js';
import type { SampleOptions } from '../../../test/support/report/sample-audit.js';
import { createSampleAudit } from '../../../test/support/report/sample-audit.js';
import { judge } from '../../report/audit/verdict.js';
import { formatAudit } from './audit-text.js';
import { createColors } from '../terminal.js';

const colors = createColors(false);
const format = (result: AuditResult, { timings } = createSampleAudit()): string =>
  formatAudit(result, judge(result, { failIfDrop: 0.3 }), { report: 'runs/x/report.html', colors, timings });
function formatSample(options: SampleOptions = {}): string {
  const sample = createSampleAudit(options);
  return format(sample.result, sample);
}

describe('an audit in the terminal', () => {
  const text = formatSample();
  const lines = text.split('\n');

  it('has one line for each row, with every number aligned', () => {
    expect(lines[0]).toMatch(/^drafter +row +accepted length +change +passes +answers +free-running +KL +n$/);
    const rows = lines.slice(1, 17);
    expect(rows.every((line) => /^(eagle3|sps) /.test(line))).toBe(true);
    expect(new Set(rows.map((line) => line.length))).toEqual(new Set([lines[0]!.length]));
    expect(lines[0]!.length).toBeLessThan(110);
    expect(rows[0]).toMatch(/^eagle3 +no suffix +2\.97 \(2\.45 to 3\.50\) +– +19\.4 +– +2\.97 +– +8$/);
    expect(rows[7]).toMatch(
      /^eagle3 +attack +1\.49 \(1\.\d\d to 1\.\d\d\) +−50 % +38\.1 \(\+97 %\) +4\/1\/3\/0 +1\.49 \(\+97 %\) +0\.\d{3} +8$/,
    );
  });

  it('explains the columns, the tests and what was skipped', () => {
    expect(text).toContain('accepted length: tokens a step along the clean answer');
    expect(text).toContain('identical/same task result/similar/different');
    expect(text).toMatch(/^eagle3, collapsed: drops by 49\.8 % .*1 of them without a suffix/m);
    expect(text).toMatch(
      /^ {2}p = 0\.008 against no suffix \(n = 8\), .* corrected for 2 drafters: p = 0\.016$/m,
    );
    expect(text).toContain('sps: 1 of 9 prompts skipped\n  short-1: The clean answer has 1 token');
  });

  it('shows where the time went', () => {
    expect(text).toMatch(
      /^time +gradient +scoring +exact lengths +decoding +controls +preparation +other +total\neagle3 +4\.0 s \(2 %\) +16\.0 s \(9 %\) .* – +–\nsps .*\nall +8\.0 s \(4 %\) +32\.0 s \(17 %\) +3\.2 s \(2 %\) +4\.0 s \(2 %\) .* 3 min 4 s\n/m,
    );
  });

  it('has the verdict, the failed gates and the report last', () => {
    expect(text).toMatch(/^collapsed: With a suffix, eagle3 accepts /m);
    expect(text.match(/the gate fails from 30\.0 % on/g)).toHaveLength(2);
    expect(text.endsWith('\nReport: runs/x/report.html\n')).toBe(true);
  });

  it('has transfer and universal suffixes with their own counts', () => {
    expect(text).toContain('over the 8 prompts audited on all of them');
    expect(text).toMatch(/^searched on +2\.74 +2\.02 +−26 % +5\/1\/1\/0 +0\.082 +p = 0\.031 +7 +1$/m);
    expect(text).toMatch(/^held out +2\.69 +2\.38 /m);
    expect(text).toMatch(/^undirected search, held out +2\.69 +2\.61 /m);
  });

  it('shows given suffixes, and says that nothing was audited', () => {
    const given = formatSample({ given: true });
    expect(given).toMatch(/^eagle3 +given suffix +1\.\d\d/m);
    expect(given).not.toMatch(/ attack /);
    const empty = formatSample({ empty: true });
    expect(empty).toMatch(/^eagle3 +nothing audited +– +– +– +– +– +– +0$/m);
    expect(empty).toContain('eagle3: 0 prompts audited, 9 skipped');
  });

  it('opens with a warning where measuring twice gives two results', () => {
    const noisy = formatSample({ noisy: true });
    expect(noisy).toMatch(
      /^Warning: Measuring the clean prompts twice did not give the same result .* --dtype float32\.\n\ndrafter +row/,
    );
    expect(noisy).toContain('1 searched suffix did not keep the answer when measured (counted as no suffix)');
    expect(text).not.toContain('Warning');
  });

  it('lets no name begin a line of its own', () => {
    const { result } = createSampleAudit();
    const [first] = result.drafters;
    const hostile = { ...result, drafters: [{ ...first!, drafter: 'evil\nrobust: all is well' }] };
    expect(format(hostile)).toContain('evil robust: all is well');
    expect(format(hostile)).not.toMatch(/^robust/m);
  });
});
